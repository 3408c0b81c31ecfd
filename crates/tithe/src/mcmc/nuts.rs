//! The no-U-turn sampler (Hoffman and Gelman 2014) with multinomial trajectories (Betancourt 2017), in whitened
//! coordinates, with a diagonal metric and a step size that adapt during warm-up.
//!
//! Whitening by the posterior's normal approximation makes a typical posterior nearly standard normal, so that a few
//! leapfrog steps cross it; the metric adapts to what the approximation misses (heavy tails, spikes).

use super::{Watch, dispersed, fill_normal, start};
use crate::base::error::Result;
use crate::base::math::{exp, ln, ln_1p, pow};
use crate::base::rng::{Rng, open_unit};
use crate::mcmc::Settings;
use crate::mcmc::draws::{Chain, Stats};
use crate::model::Target;

/// Target of the mean acceptance probability.
const TARGET_ACCEPTANCE: f64 = 0.8;
/// A larger share of divergent trajectories raises the target; a single one late in a window does not.
const MOST_DIVERGING: f64 = 0.04;
/// Maximum number of doublings of a trajectory.
const MAX_DEPTH: u32 = 10;
/// A trajectory whose energy rises by more than this diverges.
const MAX_ENERGY_RISE: f64 = 1000.0;

pub(super) fn chain(
    target: &mut dyn Target,
    settings: &Settings,
    rng: &mut Rng,
    watch: &Watch<'_>,
) -> Result<Chain> {
    let dim = target.dim();
    let mut dynamics = Dynamics { target, variance: vec![1.0; dim], step: 1.0, spare: Vec::new() };
    let mut state = State::new(dim);
    state.position = dispersed(dim, rng);
    state.value = start(dynamics.target, &state.position, &mut state.gradient)?;
    dynamics.step = dynamics.reasonable_step(&state, rng);
    let mut averaging = DualAveraging::new(dynamics.step, TARGET_ACCEPTANCE);
    let mut moments = Moments::new(dim);
    let windows = Windows::new(settings.warmup);

    let mut kept = Chain::default();
    let mut noted: Vec<Note> = Vec::with_capacity(settings.draws);
    let total = settings.warmup + settings.draws;
    for i in 0..total {
        let note = dynamics.transition(&mut state, rng);
        if i < settings.warmup {
            dynamics.step = averaging.update(&note);
            if windows.slow(i) {
                moments.add(&state.position);
            }
            if windows.ends(i) {
                moments.shrunk_variance(&mut dynamics.variance);
                moments = Moments::new(dim);
                dynamics.step = dynamics.reasonable_step(&state, rng);
                averaging = averaging.again(dynamics.step);
            }
            if i + 1 == settings.warmup {
                dynamics.step = averaging.final_step();
            }
        } else {
            dynamics.target.keep(&state.position, &mut kept.theta);
            kept.lp.push(state.value);
            noted.push(note);
        }
        watch.iteration(i, total)?;
    }
    kept.stats = Stats::Hamiltonian {
        acceptance_rate: noted.iter().map(|note| note.acceptance).collect(),
        diverging: noted.iter().map(|note| note.diverging).collect(),
        energy: noted.iter().map(|note| note.energy).collect(),
        tree_depth: noted.iter().map(|note| note.depth).collect(),
        n_steps: noted.iter().map(|note| note.steps).collect(),
        step_size: dynamics.step,
        reached_max_treedepth: noted.iter().map(|note| note.cut).collect(),
    };
    Ok(kept)
}

/// Statistics of one transition.
struct Note {
    acceptance: f64,
    diverging: bool,
    energy: f64,
    depth: u32,
    steps: u32,
    cut: bool,
}

/// A point of phase space, with the density and its gradient there.
struct State {
    position: Vec<f64>,
    momentum: Vec<f64>,
    gradient: Vec<f64>,
    value: f64,
}

impl State {
    fn new(dim: usize) -> State {
        State { position: vec![0.0; dim], momentum: vec![0.0; dim], gradient: vec![0.0; dim], value: 0.0 }
    }

    fn copy_from(&mut self, other: &State) {
        self.position.copy_from_slice(&other.position);
        self.momentum.copy_from_slice(&other.momentum);
        self.gradient.copy_from_slice(&other.gradient);
        self.value = other.value;
    }
}

/// A part of a trajectory, in the order in which it was integrated.
struct Tree {
    /// One of its points, chosen with probability proportional to the density.
    chosen: State,
    /// Logarithm of the summed densities, relative to the trajectory's start.
    log_weight: f64,
    /// Momenta at both ends and their sum.
    first: Vec<f64>,
    last: Vec<f64>,
    sum: Vec<f64>,
}

/// Running totals of a trajectory.
struct Walk {
    initial_energy: f64,
    acceptance: f64,
    steps: u32,
    diverging: bool,
}

/// Why a part of a trajectory cannot be used.
struct Stopped;

/// Hamiltonian dynamics.
struct Dynamics<'a> {
    target: &'a mut dyn Target,
    /// The inverse metric.
    variance: Vec<f64>,
    step: f64,
    /// Trees no longer needed, whose memory is reused.
    spare: Vec<Tree>,
}

impl Dynamics<'_> {
    /// One leapfrog step, forwards or backwards in time.
    fn leapfrog(&mut self, state: &mut State, step: f64) {
        for (p, g) in state.momentum.iter_mut().zip(&state.gradient) {
            *p += 0.5 * step * g;
        }
        for ((x, p), v) in state.position.iter_mut().zip(&state.momentum).zip(&self.variance) {
            *x += step * v * p;
        }
        state.value = self.target.value_and_gradient(&state.position, &mut state.gradient);
        for (p, g) in state.momentum.iter_mut().zip(&state.gradient) {
            *p += 0.5 * step * g;
        }
    }

    fn energy(&self, state: &State) -> f64 {
        let kinetic: f64 = state.momentum.iter().zip(&self.variance).map(|(p, v)| p * p * v).sum();
        0.5 * kinetic - state.value
    }

    fn refresh_momentum(&self, state: &mut State, rng: &mut Rng) {
        fill_normal(&mut state.momentum, rng);
        for (p, v) in state.momentum.iter_mut().zip(&self.variance) {
            *p /= v.sqrt();
        }
    }

    /// True while the ends of the trajectory from momentum `first` to momentum `last` still move apart; `sum` is the sum
    /// of all its momenta.
    fn persists(&self, first: &[f64], last: &[f64], sum: impl Fn(usize) -> f64) -> bool {
        let (mut at_first, mut at_last) = (0.0, 0.0);
        for (d, v) in self.variance.iter().enumerate() {
            at_first += first[d] * v * sum(d);
            at_last += last[d] * v * sum(d);
        }
        at_first > 0.0 && at_last > 0.0
    }

    fn leaf(&mut self, state: &State, log_weight: f64) -> Tree {
        let dim = state.position.len();
        let mut tree = self.spare.pop().unwrap_or_else(|| Tree {
            chosen: State::new(dim),
            log_weight: 0.0,
            first: vec![0.0; dim],
            last: vec![0.0; dim],
            sum: vec![0.0; dim],
        });
        tree.chosen.copy_from(state);
        tree.log_weight = log_weight;
        tree.first.copy_from_slice(&state.momentum);
        tree.last.copy_from_slice(&state.momentum);
        tree.sum.copy_from_slice(&state.momentum);
        tree
    }

    /// Joins a tree with the one integrated after it; false if the joined trajectory has made a U-turn.
    fn join(&mut self, tree: &mut Tree, mut next: Tree, accept_next: bool) -> bool {
        // Checks the joined trajectory, and each half with the nearest point of the other half.
        let persists = self.persists(&tree.first, &next.last, |d| tree.sum[d] + next.sum[d])
            && self.persists(&tree.first, &next.first, |d| tree.sum[d] + next.first[d])
            && self.persists(&tree.last, &next.last, |d| tree.last[d] + next.sum[d]);
        if accept_next {
            std::mem::swap(&mut tree.chosen, &mut next.chosen);
        }
        tree.log_weight = log_add(tree.log_weight, next.log_weight);
        for (sum, more) in tree.sum.iter_mut().zip(&next.sum) {
            *sum += more;
        }
        std::mem::swap(&mut tree.last, &mut next.last);
        self.spare.push(next);
        persists
    }

    /// Integrates `2^depth` steps from `end`.
    fn grow(
        &mut self,
        depth: u32,
        end: &mut State,
        step: f64,
        walk: &mut Walk,
        rng: &mut Rng,
    ) -> std::result::Result<Tree, Stopped> {
        if depth == 0 {
            self.leapfrog(end, step);
            walk.steps += 1;
            let rise = self.energy(end) - walk.initial_energy;
            if rise.is_nan() || rise > MAX_ENERGY_RISE {
                walk.diverging = true;
                return Err(Stopped);
            }
            walk.acceptance += exp((-rise).min(0.0));
            return Ok(self.leaf(end, -rise));
        }
        let mut tree = self.grow(depth - 1, end, step, walk, rng)?;
        let next = match self.grow(depth - 1, end, step, walk, rng) {
            Ok(next) => next,
            Err(stopped) => {
                self.spare.push(tree);
                return Err(stopped);
            }
        };
        let share = exp(next.log_weight - log_add(tree.log_weight, next.log_weight));
        let accept = open_unit(rng) <= share;
        if self.join(&mut tree, next, accept) {
            Ok(tree)
        } else {
            self.spare.push(tree);
            Err(Stopped)
        }
    }

    /// One transition of the chain: `state` is replaced by the next draw.
    fn transition(&mut self, state: &mut State, rng: &mut Rng) -> Note {
        self.refresh_momentum(state, rng);
        let mut walk =
            Walk { initial_energy: self.energy(state), acceptance: 0.0, steps: 0, diverging: false };
        let mut tree = self.leaf(state, 0.0);
        let mut forward_end = State::new(state.position.len());
        let mut backward_end = State::new(state.position.len());
        forward_end.copy_from(state);
        backward_end.copy_from(state);
        let mut depth = 0;
        let mut going = true;
        while going && depth < MAX_DEPTH {
            let forward = open_unit(rng) <= 0.5;
            let (end, step) =
                if forward { (&mut forward_end, self.step) } else { (&mut backward_end, -self.step) };
            let Ok(next) = self.grow(depth, end, step, &mut walk, rng) else {
                break;
            };
            depth += 1;
            // A new half with at least the weight of the old one is always accepted: biased progressive sampling.
            let accept = open_unit(rng) <= exp(next.log_weight - tree.log_weight);
            if !forward {
                // Trees are joined in the direction of time in which `next` was integrated.
                std::mem::swap(&mut tree.first, &mut tree.last);
            }
            going = self.join(&mut tree, next, accept);
            if !forward {
                std::mem::swap(&mut tree.first, &mut tree.last);
            }
            debug_assert!(tree.first == backward_end.momentum && tree.last == forward_end.momentum);
        }
        state.copy_from(&tree.chosen);
        self.spare.push(tree);
        Note {
            acceptance: walk.acceptance / f64::from(walk.steps.max(1)),
            diverging: walk.diverging,
            energy: self.energy(state),
            depth,
            steps: walk.steps,
            cut: going && depth == MAX_DEPTH,
        }
    }

    /// A step size at which one leapfrog step is accepted with probability about 0.8.
    fn reasonable_step(&mut self, state: &State, rng: &mut Rng) -> f64 {
        let mut probe = State::new(state.position.len());
        let mut step = self.step;
        let mut direction = 0;
        for _ in 0..60 {
            probe.copy_from(state);
            self.refresh_momentum(&mut probe, rng);
            let before = self.energy(&probe);
            self.leapfrog(&mut probe, step);
            let fall = before - self.energy(&probe);
            let wanted = if fall > ln(TARGET_ACCEPTANCE) { 1 } else { -1 };
            if direction != 0 && wanted != direction {
                break;
            }
            direction = wanted;
            step *= if direction == 1 { 2.0 } else { 0.5 };
        }
        step
    }
}

/// `ln(eᵃ + eᵇ)`.
fn log_add(a: f64, b: f64) -> f64 {
    let (large, small) = if a > b { (a, b) } else { (b, a) };
    large + ln_1p(exp(small - large))
}

/// Nesterov's dual averaging of the logarithm of the step size (Hoffman and Gelman 2014, section 3.2).
///
/// If the density falls off abruptly (a level that separates the classes), the mean acceptance over a trajectory is high
/// for any step size, since most steps come before the drop. So a divergent trajectory counts as rejected, and if
/// divergences are still frequent at the end of a window, the target is raised for the next one.
struct DualAveraging {
    /// The target of the mean acceptance.
    target: f64,
    /// The share of divergent trajectories, averaged mainly over the last few dozen.
    diverging: f64,
    centre: f64,
    count: f64,
    error: f64,
    log_step_mean: f64,
}

impl DualAveraging {
    fn new(step: f64, target: f64) -> DualAveraging {
        DualAveraging {
            target,
            diverging: 0.0,
            centre: ln(10.0 * step),
            count: 0.0,
            error: 0.0,
            log_step_mean: 0.0,
        }
    }

    /// Restarts at a step size, for a new metric.
    fn again(&self, step: f64) -> DualAveraging {
        // A short window ends before the step size has converged.
        let often = self.count > 100.0 && self.diverging > MOST_DIVERGING;
        DualAveraging::new(step, if often { 0.5 * (1.0 + self.target) } else { self.target })
    }

    /// The step size to try next.
    fn update(&mut self, note: &Note) -> f64 {
        let acceptance = if note.diverging { 0.0 } else { note.acceptance };
        self.diverging += (f64::from(u8::from(note.diverging)) - self.diverging) / 30.0;
        const SHRINKAGE: f64 = 0.05;
        const DELAY: f64 = 10.0;
        const DECAY: f64 = 0.75;
        self.count += 1.0;
        let weight = 1.0 / (self.count + DELAY);
        self.error = (1.0 - weight) * self.error + weight * (self.target - acceptance);
        let log_step = self.centre - self.count.sqrt() / SHRINKAGE * self.error;
        let weight = pow(self.count, -DECAY);
        self.log_step_mean = weight * log_step + (1.0 - weight) * self.log_step_mean;
        exp(log_step)
    }

    fn final_step(&self) -> f64 {
        exp(self.log_step_mean)
    }
}

/// Running means and variances.
struct Moments {
    count: f64,
    mean: Vec<f64>,
    squares: Vec<f64>,
}

impl Moments {
    fn new(dim: usize) -> Moments {
        Moments { count: 0.0, mean: vec![0.0; dim], squares: vec![0.0; dim] }
    }

    fn add(&mut self, x: &[f64]) {
        self.count += 1.0;
        for ((x, mean), squares) in x.iter().zip(&mut self.mean).zip(&mut self.squares) {
            let difference = x - *mean;
            *mean += difference / self.count;
            *squares += difference * (x - *mean);
        }
    }

    /// The variances, shrunk towards 1 (their value after perfect whitening) with the weight of five draws.
    fn shrunk_variance(&self, variance: &mut [f64]) {
        for (variance, squares) in variance.iter_mut().zip(&self.squares) {
            *variance = (self.count * squares / (self.count - 1.0).max(1.0) + 5.0) / (self.count + 5.0);
        }
    }
}

/// When the metric is estimated during warm-up: in windows of doubling length, each of which starts afresh, between a
/// first and a last phase that adapt only the step size.
struct Windows {
    begin: usize,
    ends: Vec<usize>,
}

impl Windows {
    fn new(warmup: usize) -> Windows {
        let (first, last) = if warmup >= 150 { (75, 50) } else { (warmup * 15 / 100, warmup / 10) };
        let close = warmup.saturating_sub(last);
        let (mut ends, mut at, mut length) = (Vec::new(), first, 25);
        while at + length <= close {
            // If too few iterations remain for the next window, this window includes them.
            let end = if at + 3 * length > close { close } else { at + length };
            ends.push(end);
            at = end;
            length *= 2;
        }
        Windows { begin: first, ends }
    }

    /// True if the metric uses iteration `i`.
    fn slow(&self, i: usize) -> bool {
        i >= self.begin && self.ends.last().is_some_and(|end| i < *end)
    }

    /// True if a window ends with iteration `i`.
    fn ends(&self, i: usize) -> bool {
        self.ends.contains(&(i + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcmc::Whitened;
    use crate::model::{Gaussian, LogDensity};

    #[test]
    fn windows_double_and_fill_the_middle_of_warm_up() {
        assert_eq!(Windows::new(1000).ends, [100, 150, 250, 450, 950]);
        assert_eq!(Windows::new(150).ends, [100]);
        assert!(Windows::new(20).ends.is_empty());
        assert!(Windows::new(0).ends.is_empty());
    }

    #[test]
    fn the_leapfrog_is_reversible_and_keeps_energy() {
        struct Normal;
        impl LogDensity for Normal {
            fn dim(&self) -> usize {
                2
            }
            fn value_and_gradient(&self, theta: &[f64], gradient: &mut [f64], _: &mut Vec<[f64; 8]>) -> f64 {
                gradient[0] = -theta[0];
                gradient[1] = -4.0 * theta[1];
                -0.5 * (theta[0] * theta[0] + 4.0 * theta[1] * theta[1])
            }
        }
        let standard = Gaussian::standard(2);
        let mut target = Whitened::new(&Normal, &standard);
        let variance = vec![1.0, 0.25];
        let mut dynamics = Dynamics { target: &mut target, variance, step: 0.1, spare: Vec::new() };
        let mut state = State::new(2);
        state.position = vec![1.0, -0.5];
        state.momentum = vec![0.3, 0.8];
        state.value = dynamics.target.value_and_gradient(&[1.0, -0.5], &mut state.gradient);
        let energy = dynamics.energy(&state);
        for _ in 0..20 {
            dynamics.leapfrog(&mut state, 0.1);
            assert!((dynamics.energy(&state) - energy).abs() < 0.01);
        }
        for _ in 0..20 {
            dynamics.leapfrog(&mut state, -0.1);
        }
        assert!((state.position[0] - 1.0).abs() < 1e-12 && (state.momentum[1] - 0.8).abs() < 1e-12);
    }
}
