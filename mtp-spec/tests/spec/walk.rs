//! Randomness that takes every branch once, with its probability.

use mtp_spec::{Chance, Draw};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};

/// One path through all random choices, chosen by a script and continued by first choices.
#[derive(Clone, Debug, Default)]
pub(crate) struct Path(Arc<Mutex<Walked>>);

#[derive(Debug, Default)]
struct Walked {
    /// For each choice so far: the branch taken, and the probabilities of all.
    choices: Vec<(usize, Vec<f64>)>,
    /// How many choices this run has made.
    made: usize,
    used: HashSet<Draw>,
}

impl Path {
    fn choose(&self, probabilities: Vec<f64>, draw: Draw) -> usize {
        let mut walked = self.0.lock().unwrap();
        assert!(walked.used.insert(draw), "{draw:?} is used twice in a run");
        let made = walked.made;
        walked.made += 1;
        if made == walked.choices.len() {
            let first = probabilities.iter().position(|&p| p > 0.0).unwrap();
            walked.choices.push((first, probabilities));
        }
        walked.choices[made].0
    }

    /// The probability of the path.
    pub(crate) fn probability(&self) -> f64 {
        let walked = self.0.lock().unwrap();
        walked
            .choices
            .iter()
            .map(|(branch, probabilities)| probabilities[*branch])
            .product()
    }

    /// Moves to the next path, the last choice varying first. False when all were walked.
    pub(crate) fn advance(&self) -> bool {
        let mut walked = self.0.lock().unwrap();
        walked.made = 0;
        walked.used.clear();
        while let Some((branch, probabilities)) = walked.choices.last_mut() {
            let rest = &probabilities[*branch + 1..];
            if let Some(skip) = rest.iter().position(|&p| p > 0.0) {
                *branch += 1 + skip;
                return true;
            }
            walked.choices.pop();
        }
        false
    }
}

impl Chance for Path {
    fn happens(&mut self, probability: f64, draw: Draw) -> bool {
        assert!((0.0..=1.0).contains(&probability), "{probability}");
        self.choose(vec![probability, 1.0 - probability], draw) == 0
    }

    fn pick(&mut self, weights: &[f64], draw: Draw) -> usize {
        let total: f64 = weights.iter().sum();
        assert!(total > 0.0 && total.is_finite());
        self.choose(weights.iter().map(|weight| weight / total).collect(), draw)
    }
}
