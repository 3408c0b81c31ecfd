//! Parts of a block, which the threads that are free share out among them; what comes of it is the same on any number of threads.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

/// So many tiles or strips of a block in up to four parts, in order, equally many in each but the last.
pub(crate) fn in_parts(count: usize) -> impl Iterator<Item = Range<usize>> {
    const PARTS: usize = 4;
    let many = count.div_ceil(PARTS).max(1);
    (0..count).step_by(many).map(move |first| first..count.min(first + many))
}

/// Works on the parts of a block, which must not depend on the threads. Threads of the pool that this one belongs to take some of
/// them if they have nothing else left to do, so that all end together. Others are not asked: they need not be there, as in a child of
/// `fork`.
pub(crate) fn share_out<P: Send, T: Send>(parts: Vec<P>, work: impl Fn(P) -> T + Sync + Send) -> Vec<T> {
    if parts.len() > 1 && rayon::current_thread_index().is_some() && rayon::current_num_threads() > 1 {
        parts.into_par_iter().map(work).collect()
    } else {
        parts.into_iter().map(work).collect()
    }
}

/// Room to work in, for as many threads as work on parts of one block. It stays for the next block: a thread's rooms are as many as
/// ever helped it, and no more than parts.
pub(crate) struct Rooms<R>(Mutex<Vec<R>>);

impl<R> Default for Rooms<R> {
    fn default() -> Rooms<R> {
        Rooms(Mutex::default())
    }
}

impl<R: Send> Rooms<R> {
    /// Works on the parts of a block, each in a room of its own as long as it lasts; see [`share_out`].
    pub fn share_out<P: Send, T: Send>(
        &self,
        parts: Vec<P>,
        new_room: impl Fn() -> R + Sync,
        work: impl Fn(&mut R, P) -> T + Sync,
    ) -> Vec<T> {
        // Where a thread has panicked, the pool passes that on.
        let rooms = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        share_out(parts, |part: P| {
            let room = rooms().pop();
            let mut room = room.unwrap_or_else(&new_room);
            let done = work(&mut room, part);
            rooms().push(room);
            done
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
    fn there_are_few_parts_and_nothing_is_left_out() {
        for count in 0..70 {
            let parts: Vec<Range<usize>> = in_parts(count).collect();
            assert!(parts.len() <= 4 && parts.iter().all(|part| !part.is_empty()), "{count}");
            assert!(parts.windows(2).all(|pair| pair[0].len() == parts[0].len()), "{count}");
            assert!(parts.iter().flat_map(Range::clone).eq(0..count), "{count}");
        }
    }

    #[test]
    fn a_thread_without_a_pool_works_alone_and_others_of_a_pool_help() {
        let alone = share_out((0..100).collect(), |_| current().id());
        assert!(alone.iter().all(|thread| *thread == current().id()));
        // Each of two parts waits until the other has begun.
        let (to_first, at_first) = channel();
        let (to_second, at_second) = channel();
        let parts = vec![(to_second, at_first), (to_first, at_second)];
        let met = pool(2).install(|| {
            share_out(parts, |(there, here)| {
                there.send(()).is_ok() && here.recv_timeout(Duration::from_secs(60)).is_ok()
            })
        });
        assert_eq!(met, [true, true]);
    }

    #[test]
    fn parts_are_worked_on_once_and_stay_in_order_whoever_works_on_them() {
        let squares = |rooms: &Rooms<u64>| {
            let parts = (0..100u64).collect();
            rooms.share_out(
                parts,
                || 0,
                |room, part| {
                    *room += 1;
                    part * part
                },
            )
        };
        let expected: Vec<u64> = (0..100).map(|part| part * part).collect();
        for threads in [1, 2, 5] {
            let (rooms, pool) = (Rooms::default(), pool(threads));
            for blocks in 1..=2 {
                assert_eq!(pool.install(|| squares(&rooms)), expected, "{threads} threads");
                let rooms = rooms.0.lock().expect("no panic");
                assert!(rooms.len() <= threads, "no more rooms than threads");
                assert_eq!(rooms.iter().sum::<u64>(), 100 * blocks, "rooms stay for the next block");
            }
        }
    }
}
