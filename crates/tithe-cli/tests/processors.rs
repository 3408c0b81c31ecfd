//! Every processor gives the same bytes: builds, fits, streams and predictions under emulated processors with other vector
//! instructions than this one. Needs `qemu-x86_64` (package `qemu-user`) and is skipped where that is missing.

mod common;

use std::process::{Command, Stdio};

use common::*;

/// Models with and without fused multiply-adds.
const MODELS: [&str; 2] = ["Haswell", "Nehalem"];
const COMMANDS: [&str; 6] = [
    "build data.csv --label y --size 60 -o DIR/core.parquet",
    "fit DIR/core.parquet --chains 1 --draws 40 --warmup 60 -o DIR/nuts.parquet",
    "fit DIR/core.parquet --sampler mala --chains 1 --draws 40 --warmup 60 -o DIR/mala.parquet",
    "fit DIR/core.parquet --sampler laplace --draws 40 -o DIR/laplace.parquet",
    "stream data.csv --label y --size 40 --block 400 --state DIR/state -o DIR/stream.parquet",
    "predict DIR/nuts.parquet data.csv -o DIR/predictions.csv",
];
const FILES: [&str; 6] =
    ["core.parquet", "nuts.parquet", "mala.parquet", "laplace.parquet", "stream.parquet", "predictions.csv"];

/// Starts all commands one after the other, on this processor or on an emulated one.
fn run(scratch: &Scratch, dir: &str, emulator: Option<(&str, &str)>) {
    std::fs::create_dir(scratch.path(dir)).expect("a directory");
    for line in COMMANDS {
        let line = line.replace("DIR", dir);
        let mut command = match emulator {
            Some((program, model)) => {
                let mut command = Command::new(program);
                command.args(["-cpu", model, TITHE]);
                command
            }
            None => Command::new(TITHE),
        };
        let output = command.current_dir(scratch.dir()).args(line.split_whitespace()).output();
        let output = output.expect("the program runs");
        let messages = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line} on {emulator:?}: {messages}");
    }
}

#[test]
fn every_processor_gives_the_same_bytes() {
    let emulator = "qemu-x86_64";
    let version = Command::new(emulator).arg("--version").stdout(Stdio::null()).status();
    if !cfg!(target_arch = "x86_64") || !version.is_ok_and(|status| status.success()) {
        eprintln!("skipped: other processors are emulated with {emulator}, which is not installed");
        return;
    }
    let scratch = Scratch::with_csv(Mixed::new(1_200).csv());
    run(&scratch, "native", None);
    std::thread::scope(|threads| {
        for model in MODELS {
            let scratch = &scratch;
            threads.spawn(move || run(scratch, model, Some((emulator, model))));
        }
    });
    for model in MODELS {
        for file in FILES {
            let [native, other] = ["native", model].map(|dir| scratch.read(&format!("{dir}/{file}")));
            assert!(native == other, "{file} has other bytes on {model}");
        }
    }
}
