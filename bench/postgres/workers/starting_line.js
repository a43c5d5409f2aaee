// The same as starting_line.py, for workers in Node.
"use strict";

const MARK = "@bench ";

exports.now = () => Number(process.hrtime.bigint()) / 1e9;

exports.waitForStart = () =>
  new Promise((resolve) => {
    process.stdin.once("data", () => {
      process.stdin.pause();
      resolve();
    });
    console.log(`${MARK}ready`);
  });

// `began` where a library connects and looks around only when it is told to work: the time of its first job.
exports.report = (jobs, ended, began) => console.log(MARK + JSON.stringify({ began, ended, jobs }));
