//! Parallel work within one block: parts of a block that idle threads take over, with results that do not depend on the number of threads.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

/// Splits `count` tiles or strips of a block into up to four consecutive ranges. All have the same length, except that the last may be
/// shorter.
pub(crate) fn part_ranges(count: usize) -> impl Iterator<Item = Range<usize>> {
    const PARTS: usize = 4;
    let many = count.div_ceil(PARTS).max(1);
    (0..count).step_by(many).map(move |first| first..count.min(first + many))
}

/// Processes the parts of a block and returns the results in order. Idle threads of the current thread pool take over some parts, so that all
/// threads finish at about the same time. Outside a thread pool the parts run on the calling thread: the global pool may not exist, as in
/// a child of `fork`.
pub(crate) fn process_parts<P: Send, T: Send>(parts: Vec<P>, work: impl Fn(P) -> T + Sync + Send) -> Vec<T> {
    if parts.len() > 1 && rayon::current_thread_index().is_some() && rayon::current_num_threads() > 1 {
        parts.into_par_iter().map(work).collect()
    } else {
        parts.into_iter().map(work).collect()
    }
}

/// Scratch buffers for the threads that process parts of one block, kept for the next block. There are as many as threads have worked on
/// one block at the same time.
pub(crate) struct ScratchPool<R>(Mutex<Vec<R>>);

impl<R> Default for ScratchPool<R> {
    fn default() -> ScratchPool<R> {
        ScratchPool(Mutex::default())
    }
}

impl<R: Send> ScratchPool<R> {
    /// Processes the parts of a block, each with exclusive use of a scratch buffer; see [`process_parts`].
    pub fn process_parts<P: Send, T: Send>(
        &self,
        parts: Vec<P>,
        new_scratch: impl Fn() -> R + Sync,
        work: impl Fn(&mut R, P) -> T + Sync,
    ) -> Vec<T> {
        // The thread pool propagates the panic of a thread that held the lock.
        let buffers = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        process_parts(parts, |part: P| {
            let buffer = buffers().pop();
            let mut buffer = buffer.unwrap_or_else(&new_scratch);
            let result = work(&mut buffer, part);
            buffers().push(buffer);
            result
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread::current;
    use std::time::Duration;

    use super::*;

    fn pool(threads: usize) -> rayon::ThreadPool {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads")
    }

    #[test]
    fn ranges_cover_everything_in_at_most_four_parts() {
        for count in 0..70 {
            let parts: Vec<Range<usize>> = part_ranges(count).collect();
            assert!(parts.len() <= 4 && parts.iter().all(|part| !part.is_empty()), "{count}");
            assert!(parts.windows(2).all(|pair| pair[0].len() == parts[0].len()), "{count}");
            assert!(parts.iter().flat_map(Range::clone).eq(0..count), "{count}");
        }
    }

    #[test]
    fn threads_of_a_pool_share_the_parts() {
        let alone = process_parts((0..100).collect(), |_| current().id());
        assert!(alone.iter().all(|thread| *thread == current().id()));
        // Each of two parts waits until the other has begun.
        let (to_first, at_first) = channel();
        let (to_second, at_second) = channel();
        let parts = vec![(to_second, at_first), (to_first, at_second)];
        let met = pool(2).install(|| {
            process_parts(parts, |(there, here)| {
                there.send(()).is_ok() && here.recv_timeout(Duration::from_secs(60)).is_ok()
            })
        });
        assert_eq!(met, [true, true]);
    }

    #[test]
    fn each_part_is_processed_once_and_results_stay_in_order() {
        let squares = |buffers: &ScratchPool<u64>| {
            let parts = (0..100u64).collect();
            buffers.process_parts(
                parts,
                || 0,
                |buffer, part| {
                    *buffer += 1;
                    part * part
                },
            )
        };
        let expected: Vec<u64> = (0..100).map(|part| part * part).collect();
        for threads in [1, 2, 5] {
            let (buffers, pool) = (ScratchPool::default(), pool(threads));
            for blocks in 1..=2 {
                assert_eq!(pool.install(|| squares(&buffers)), expected, "{threads} threads");
                let buffers = buffers.0.lock().expect("no panic");
                assert!(buffers.len() <= threads, "no more buffers than threads");
                assert_eq!(buffers.iter().sum::<u64>(), 100 * blocks, "buffers are kept for the next block");
            }
        }
    }
}
