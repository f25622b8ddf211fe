//! An engine that plays what it is given.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};

use mtp_spec::{Allowed, Emitted, Finish, Statistics, TokenId, TokenLogprobs, TokenSet};
use qwen35_model::ModelError;
use qwen35_model::engine::{
    Engine, EngineAbout, EngineError, Generation, PrefillProgress, Started,
};

/// What one generation does.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    /// Prefill calls before the prompt is read.
    pub(crate) prefill_chunks: usize,
    /// Rounds of tokens; after the last the script goes on with `repeat`.
    pub(crate) rounds: VecDeque<Round>,
    /// A round to play for ever; without one the context is full after the last round.
    pub(crate) repeat: Option<Round>,
    /// Prompt tokens that a saved prefix is said to hold.
    pub(crate) cached: usize,
}

/// One call of `step`.
#[derive(Clone, Debug)]
pub(crate) enum Round {
    /// Emits these.
    Tokens(Vec<TokenId>),
    /// Fails.
    Fail,
    /// Panics.
    Panic,
    /// Waits until the gate is open, then emits.
    Gated(Arc<Gate>, Vec<TokenId>),
}

/// Holds the engine up until the test lets it go on, one pass at a time.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    passes: Mutex<usize>,
    changed: Condvar,
}

impl Gate {
    /// Lets the engine pass so many times.
    pub(crate) fn open(&self, passes: usize) {
        *self.passes.lock().unwrap() += passes;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut passes = self.passes.lock().unwrap();
        while *passes == 0 {
            passes = self.changed.wait(passes).unwrap();
        }
        *passes -= 1;
    }
}

/// What the engine was asked to do, for the tests to look at and wait for.
#[derive(Debug, Default)]
pub(crate) struct Log {
    state: Mutex<LogState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
pub(crate) struct LogState {
    pub(crate) started: Vec<StartedGeneration>,
    pub(crate) finished: usize,
    pub(crate) steps: usize,
    pub(crate) prefills: usize,
    /// Tokens kept, over all generations.
    pub(crate) kept: Vec<TokenId>,
    pub(crate) opened: usize,
}

/// The request of a generation.
#[derive(Clone, Debug)]
pub(crate) struct StartedGeneration {
    pub(crate) prompt: Vec<TokenId>,
    pub(crate) sampler: mtp_spec::SamplerConfig,
    pub(crate) max_tokens: usize,
    pub(crate) speculative: bool,
    pub(crate) cache_prompt: bool,
    pub(crate) checkpoints: Vec<usize>,
    pub(crate) masked: bool,
}

impl Log {
    fn change(&self, change: impl FnOnce(&mut LogState)) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }

    /// Waits until `done` holds. The test's own time limit is the only one.
    pub(crate) fn wait(&self, done: impl Fn(&LogState) -> bool) {
        let mut state = self.state.lock().unwrap();
        while !done(&state) {
            state = self.changed.wait(state).unwrap();
        }
    }

    pub(crate) fn read<T>(&self, read: impl FnOnce(&LogState) -> T) -> T {
        read(&self.state.lock().unwrap())
    }
}

/// Scripts for the next generations; the last one is played again and again.
#[derive(Debug, Default)]
pub(crate) struct Stage {
    pub(crate) scripts: Mutex<VecDeque<Script>>,
    pub(crate) log: Log,
}

#[derive(Debug)]
pub(crate) struct ScriptedEngine {
    about: EngineAbout,
    stage: Arc<Stage>,
    current: Option<Current>,
    statistics: Statistics,
    prompt_logprobs: Vec<TokenLogprobs>,
}

#[derive(Debug)]
struct Current {
    script: Script,
    generation: Generation,
    prefilled: usize,
    emitted: usize,
    finish: Option<Finish>,
}

impl ScriptedEngine {
    pub(crate) fn new(context: usize, stage: Arc<Stage>) -> Self {
        stage.log.change(|log| log.opened += 1);
        Self {
            about: EngineAbout {
                model: "scripted/tiny".into(),
                vocab_size: 2048,
                context,
                contract: "script/1".into(),
                device: "none".into(),
                mtp: true,
                package_digest: "0123456789abcdef".repeat(4),
            },
            stage,
            current: None,
            statistics: Statistics::default(),
            prompt_logprobs: Vec::new(),
        }
    }
}

/// Made-up log-probabilities: the token itself at -0.5, others below it.
fn logprobs(token: TokenId, top: usize) -> TokenLogprobs {
    let mut all = vec![(token, -0.5)];
    let others = (0..).map(TokenId).filter(|&other| other != token);
    all.extend(
        others
            .zip(1_u16..)
            .map(|(other, place)| (other, -1.0 - f32::from(place)))
            .take(top),
    );
    all.truncate(top);
    TokenLogprobs {
        logprob: -0.5,
        top: all,
    }
}

impl Engine for ScriptedEngine {
    fn about(&self) -> &EngineAbout {
        &self.about
    }

    fn start(&mut self, generation: Generation) -> Result<Started, EngineError> {
        let mut scripts = self.stage.scripts.lock().unwrap();
        let script = match scripts.len() {
            0 => Script::default(),
            1 => scripts[0].clone(),
            _ => scripts.pop_front().unwrap(),
        };
        drop(scripts);
        let started = Started {
            prompt_tokens: generation.prompt.len(),
            cached_tokens: if generation.cache_prompt {
                script.cached
            } else {
                0
            },
        };
        self.prompt_logprobs = match generation.prompt_logprobs {
            Some(top) => generation.prompt[1..]
                .iter()
                .map(|&token| logprobs(token, top))
                .collect(),
            None => Vec::new(),
        };
        self.stage.log.change(|log| {
            log.started.push(StartedGeneration {
                prompt: generation.prompt.clone(),
                sampler: generation.sampler.clone(),
                max_tokens: generation.max_tokens,
                speculative: generation.speculative,
                cache_prompt: generation.cache_prompt,
                checkpoints: generation.checkpoints.clone(),
                masked: generation.mask.is_some(),
            });
        });
        self.statistics = Statistics::default();
        self.current = Some(Current {
            script,
            generation,
            prefilled: 0,
            emitted: 0,
            finish: None,
        });
        Ok(started)
    }

    fn prefill(&mut self) -> Result<PrefillProgress, EngineError> {
        let current = self.current.as_mut().expect("a generation was started");
        current.prefilled += 1;
        self.stage.log.change(|log| log.prefills += 1);
        let total = current.generation.prompt.len();
        let left = current
            .script
            .prefill_chunks
            .saturating_sub(current.prefilled);
        Ok(PrefillProgress {
            done: if left == 0 { total } else { 0 },
            total,
        })
    }

    fn step(
        &mut self,
        keep: &mut dyn FnMut(&[Emitted]) -> usize,
    ) -> Result<Option<Finish>, EngineError> {
        let current = self.current.as_mut().expect("a generation was started");
        self.stage.log.change(|log| log.steps += 1);
        if current.finish.is_some() {
            return Ok(current.finish);
        }
        let next = current
            .script
            .rounds
            .pop_front()
            .or_else(|| current.script.repeat.clone());
        let tokens = match next {
            None => return Ok(Some(Finish::Capacity)),
            Some(Round::Tokens(tokens)) => tokens,
            Some(Round::Gated(gate, tokens)) => {
                gate.pass();
                tokens
            }
            Some(Round::Fail) => {
                return Err(ModelError::MissingTensor {
                    origin: "script".into(),
                    name: "x".into(),
                }
                .into());
            }
            Some(Round::Panic) => panic!("the script says so"),
        };
        let mut round: Vec<Emitted> = Vec::new();
        for wanted in tokens {
            if current.emitted + round.len() >= current.generation.max_tokens {
                break;
            }
            let token = masked(&mut current.generation, self.about.vocab_size, wanted);
            round.push(Emitted {
                token,
                position: current.generation.prompt.len() + current.emitted + round.len(),
                drafted: false,
                logprobs: current
                    .generation
                    .top_logprobs
                    .map(|top| logprobs(token, top)),
            });
            if current.generation.sampler.stop_tokens.contains(&token) {
                current.finish = Some(Finish::Stop(token));
                break;
            }
        }
        let kept = keep(&round);
        self.stage
            .log
            .change(|log| log.kept.extend(round[..kept].iter().map(|e| e.token)));
        current.emitted += kept;
        self.statistics.rounds += 1;
        self.statistics.emitted += kept as u64;
        if round.len() > 1 {
            self.statistics.drafted += round.len() as u64;
            self.statistics.accepted += round.len() as u64 - 1;
        }
        if current.finish.is_none() && current.emitted >= current.generation.max_tokens {
            current.finish = Some(Finish::MaxTokens);
        }
        Ok(current.finish)
    }

    fn prompt_logprobs(&self) -> &[TokenLogprobs] {
        &self.prompt_logprobs
    }

    fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    fn finish(&mut self) {
        self.current = None;
        self.stage.log.change(|log| log.finished += 1);
    }
}

/// The token itself where the mask allows it, else the lowest that it allows.
fn masked(generation: &mut Generation, vocab_size: usize, wanted: TokenId) -> TokenId {
    let Some(mask) = &mut generation.mask else {
        return wanted;
    };
    let mut set = TokenSet::empty(vocab_size);
    let token = match mask.allowed(&mut set).unwrap() {
        Allowed::Set if !set.contains(wanted) => (0..)
            .map(TokenId)
            .take(vocab_size)
            .find(|&token| set.contains(token))
            .expect("some token is allowed"),
        _ => wanted,
    };
    mask.accept(token).unwrap();
    token
}
