//! Properties of the machine, and the limits under which this process runs.

use std::path::Path;

/// The memory in bytes that this process may use: what the machine has, or less if its control groups (a container) or its
/// resource limits (`ulimit -v`, `ulimit -d`) allow less. Of a limit on address space, what is already mapped is gone.
pub fn memory_limit() -> Option<u64> {
    limit_under(Path::new("/"))
}

/// The same with the system's files below `root`.
fn limit_under(root: &Path) -> Option<u64> {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
    let limits = [
        kilobytes(&read("proc/meminfo"), "MemTotal:"),
        cgroup_limit(root, &read("proc/self/cgroup")),
        resource_limit(&read("proc/self/limits"), &read("proc/self/status")),
    ];
    limits.into_iter().flatten().min()
}

/// The value of a line such as `MemTotal:  1024 kB`, in bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The smallest limit of the control groups of this process and of those around them. `groups` has one line per hierarchy:
/// `0::/path` in version 2, `5:memory:/path` in version 1.
fn cgroup_limit(root: &Path, groups: &str) -> Option<u64> {
    let mut least: Option<u64> = None;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (mount, file) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max"),
            names if names.split(',').any(|name| name == "memory") => {
                ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        // Inside a container the path may be that outside, so the mount itself counts too.
        for group in Path::new(path.trim_start_matches('/')).ancestors() {
            let text = std::fs::read_to_string(root.join(mount).join(group).join(file)).unwrap_or_default();
            // No limit is the word "max".
            if let Ok(limit) = text.trim().parse::<u64>() {
                least = Some(least.map_or(limit, |least| least.min(limit)));
            }
        }
    }
    least
}

/// What the soft limits on address space and on data leave, by `/proc/self/limits` and `/proc/self/status`.
fn resource_limit(limits: &str, status: &str) -> Option<u64> {
    let left = |limit: &str, used: &str| {
        let line = limits.lines().find_map(|line| line.strip_prefix(limit))?;
        let limit: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(limit.saturating_sub(kilobytes(status, used).unwrap_or(0)))
    };
    let all = [left("Max address space", "VmSize:"), left("Max data size", "VmData:")];
    all.into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_limit_counts() {
        let root = tempfile::tempdir().expect("a directory");
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            std::fs::write(path, text).expect("written");
        };
        let limit = || limit_under(root.path());
        assert_eq!(limit(), None);
        write("proc/meminfo", "MemTotal:       1000 kB\nMemFree:   3 kB\n");
        assert_eq!(limit(), Some(1_024_000));
        write("proc/self/cgroup", "0::/a/b\n");
        write("sys/fs/cgroup/a/b/memory.max", "max\n");
        assert_eq!(limit(), Some(1_024_000));
        write("sys/fs/cgroup/a/memory.max", "900000\n");
        assert_eq!(limit(), Some(900_000));
        write(
            "proc/self/limits",
            "Limit  Soft Hard Units\nMax data size  unlimited  unlimited  bytes\nMax address space         800000     unlimited   bytes\n",
        );
        write("proc/self/status", "VmSize:      100 kB\nVmData:      50 kB\n");
        assert_eq!(limit(), Some(800_000 - 102_400));
        write("proc/self/cgroup", "12:cpu:/x\n5:memory,hugetlb:/outside\n");
        write("sys/fs/cgroup/memory/memory.limit_in_bytes", "500000\n");
        assert_eq!(limit(), Some(500_000));
    }
}
