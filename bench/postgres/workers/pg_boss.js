// pg-boss: fetch and complete in a loop. Its work() looks for jobs at most twice a second unless batches come back full.
"use strict";

const { PgBoss } = require("pg-boss");
const { now, report, waitForStart } = require("./starting_line.js");

const [, , command, url, ...rest] = process.argv;
const QUEUE = "jobs";
const CHUNK = 1000;

function open(options) {
  const boss = new PgBoss({ connectionString: url, supervise: false, schedule: false, ...options });
  boss.on("error", console.error);
  return boss.start();
}

async function fill(jobs) {
  const boss = await open({});
  await boss.createQueue(QUEUE);
  for (let start = 0; start < jobs; start += CHUNK) {
    const specs = [];
    for (let number = start; number < Math.min(start + CHUNK, jobs); number++) specs.push({ data: { number } });
    await boss.insert(QUEUE, specs);
  }
  await boss.stop({ graceful: false });
}

async function drain(batch) {
  const jobs = [];
  const boss = await open({ migrate: false });
  await boss.getQueue(QUEUE); // fills its cache of queues
  await waitForStart();
  let ended = now();
  for (;;) {
    const fetched = await boss.fetch(QUEUE, { batchSize: batch });
    if (fetched.length === 0) break;
    for (const job of fetched) jobs.push(job.data.number);
    await boss.complete(QUEUE, fetched.map((job) => job.id));
    ended = now();
  }
  report(jobs, ended);
  await boss.stop({ graceful: false });
}

(command === "fill" ? fill(Number(rest[0])) : drain(Number(rest[1]))).catch((error) => {
  console.error(error);
  process.exit(1);
});
