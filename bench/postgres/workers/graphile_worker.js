// graphile-worker: one job at a time, or (MODE localQueue) with its local queue and batched completion.
"use strict";

const { Pool } = require("pg");
const { Logger, makeWorkerUtils, runOnce } = require("graphile-worker");
const { now, report, waitForStart } = require("./starting_line.js");

const [, , command, url, ...rest] = process.argv;
const quiet = new Logger(() => () => {});
const CHUNK = 1000;

async function fill(jobs) {
  const utils = await makeWorkerUtils({ connectionString: url, logger: quiet });
  await utils.migrate();
  for (let start = 0; start < jobs; start += CHUNK) {
    const specs = [];
    for (let number = start; number < Math.min(start + CHUNK, jobs); number++) {
      specs.push({ identifier: "job", payload: { number } });
    }
    await utils.addJobs(specs);
  }
  await utils.release();
}

async function drain(mode, batch) {
  const jobs = [];
  let began;
  const batching =
    mode === "localQueue" ? { localQueue: { size: batch }, completeJobBatchDelay: 0, failJobBatchDelay: 0 } : {};
  const preset = { worker: { concurrentJobs: 1, logger: quiet, ...batching } };
  const pgPool = new Pool({ connectionString: url, max: 10 });
  const job = async (payload) => {
    began ??= now();
    jobs.push(payload.number);
  };
  await pgPool.query("SELECT 1"); // everything loaded and connected
  await waitForStart();
  await runOnce({ preset, pgPool, taskList: { job }, noHandleSignals: true }); // comes back when every completion is written
  report(jobs, now(), began);
  await pgPool.end();
}

(command === "fill" ? fill(Number(rest[0])) : drain(rest[0], Number(rest[1]))).catch((error) => {
  console.error(error);
  process.exit(1);
});
