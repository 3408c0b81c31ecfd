//! `tithe-fuzz TARGET [options of libFuzzer]` searches for inputs that break a target; `tithe-fuzz --cover TARGET DIR` runs each file of
//! a corpus and prints which blocks of code were executed; `tithe-fuzz --seeds DIR` writes valid inputs. `scripts/fuzz` builds and calls
//! it.

mod seeds;
mod targets;

use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

// Only for the library of LLVM that it builds and links.
use libfuzzer_sys as _;
use targets::{TARGETS, Target};

static TARGET: OnceLock<Target> = OnceLock::new();

unsafe extern "C" {
    fn LLVMFuzzerRunDriver(
        argc: *mut c_int,
        argv: *mut *mut *mut c_char,
        callback: extern "C" fn(*const u8, usize) -> c_int,
    ) -> c_int;
    // The linker's bounds of the counters and of their table: address of the block and flags.
    #[link_name = "__start___sancov_cntrs"]
    static mut COUNTERS: u8;
    #[link_name = "__stop___sancov_cntrs"]
    static COUNTERS_END: u8;
    #[link_name = "__start___sancov_pcs"]
    static BLOCKS: [usize; 2];
}

/// Required by `libfuzzer-sys`; its entry point is not used.
#[unsafe(no_mangle)]
fn rust_fuzzer_test_input(_: &[u8]) -> i32 {
    0
}

extern "C" fn run(data: *const u8, len: usize) -> c_int {
    // SAFETY: libFuzzer passes a buffer of this length, or a null pointer and 0.
    let bytes = if len == 0 { &[][..] } else { unsafe { std::slice::from_raw_parts(data, len) } };
    let target = TARGET.get().expect("main sets it");
    // Panics that the library catches are part of its work; one that arrives here is a finding.
    if catch_unwind(AssertUnwindSafe(|| target(bytes))).is_err() {
        std::process::abort();
    }
    0
}

fn main() {
    let mut arguments: Vec<String> = std::env::args().collect();
    if let [_, word, folder] = &arguments[..]
        && word == "--seeds"
    {
        return write_seeds(folder);
    }
    let covers = arguments.get(1).is_some_and(|word| word == "--cover");
    if covers {
        arguments.remove(1);
    }
    let names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    let chosen = arguments.get(1).and_then(|wanted| TARGETS.iter().find(|(name, _)| name == wanted));
    let Some((_, target)) = chosen else {
        eprintln!("usage: tithe-fuzz [--cover] TARGET …, where TARGET is one of {}", names.join(", "));
        std::process::exit(2);
    };
    arguments.remove(1);
    TARGET.get_or_init(|| *target);
    if covers {
        cover(&arguments[1..], *target);
        return;
    }
    let owned: Vec<CString> =
        arguments.into_iter().map(|word| CString::new(word).expect("no zero byte")).collect();
    let mut pointers: Vec<*mut c_char> = owned.iter().map(|word| word.as_ptr().cast_mut()).collect();
    pointers.push(std::ptr::null_mut());
    let mut count = owned.len() as c_int;
    let mut pointer = pointers.as_mut_ptr();
    // SAFETY: the arguments live until the process ends, and the list ends with a null pointer.
    let code = unsafe { LLVMFuzzerRunDriver(&mut count, &mut pointer, run) };
    std::process::exit(code);
}

/// Writes each valid input to the directory of its target.
fn write_seeds(folder: &str) {
    for (at, (target, bytes)) in seeds::seeds().into_iter().enumerate() {
        let folder = std::path::Path::new(folder).join(target);
        std::fs::create_dir_all(&folder).expect("a directory");
        std::fs::write(folder.join(format!("seed-{at:03}")), bytes).expect("written");
    }
}

/// Runs each file and prints one line per block: whether it was executed, and its address.
fn cover(folders: &[String], target: Target) {
    std::panic::set_hook(Box::new(|_| {}));
    for folder in folders {
        for entry in std::fs::read_dir(folder).expect("a directory").flatten() {
            let bytes = std::fs::read(entry.path()).unwrap_or_default();
            let _ = catch_unwind(AssertUnwindSafe(|| target(&bytes)));
        }
    }
    // SAFETY: both arrays are made by the compiler, with one entry per block; no other thread runs.
    unsafe {
        let first = &raw const COUNTERS;
        let count = (&raw const COUNTERS_END).offset_from(first) as usize;
        let blocks = std::slice::from_raw_parts(&raw const BLOCKS, count);
        for (at, [address, _]) in blocks.iter().enumerate() {
            println!("{} {:#x}", u8::from(*first.add(at) > 0), address - base());
        }
    }
}

/// Where the program was loaded: addresses in its file start at 0.
fn base() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux");
    let start = maps.split('-').next().expect("an address");
    usize::from_str_radix(start, 16).expect("an address")
}
