// The order of claims, and the edits that move a task to another position.

const RANK = { expedite: 1, fixed_date: 2, standard: 3, intangible: 4 };

const compareText = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

/** Class, override, priority (lower first), time in the queue, id. */
export function inOrder(a, b) {
  return sameGroup(a, b) || compareText(stamp(a), stamp(b)) || compareText(a.id, b.id);
}

const stamps = new WeakMap(); // tasks are sorted more often than they change

function sameGroup(a, b) {
  return RANK[a.service_class] - RANK[b.service_class] || !!b.override - !!a.override || a.priority - b.priority;
}

/** Times are compared as text, to the microsecond; the server omits a zero fraction. */
function stamp(task) {
  let found = stamps.get(task);
  if (found === undefined) {
    found = micros(task.queued_at).toString().padStart(20, "0");
    stamps.set(task, found);
  }
  return found;
}

export function micros(text) {
  const [, whole, fraction = ""] = /^(.*?)(?:\.(\d+))?(?:Z|\+00:00)$/.exec(text);
  return BigInt(Date.parse(`${whole}Z`)) * 1000n + BigInt(fraction.padEnd(6, "0").slice(0, 6));
}

export function timeOf(at) {
  const whole = new Date(Number(at / 1000n)).toISOString().slice(0, 19);
  return `${whole}.${String(at % 1_000_000n).padStart(6, "0")}Z`;
}

/**
 * The edits, as [id, changes], that move `task` between `above` and `below` in the sorted `line`.
 * It takes class and priority of its neighbours only if needed; then the queue time decides. Tasks above that were queued at the same moment are moved forward a little to make room.
 */
export function placed(task, line, place) {
  const others = line.filter((other) => other.id !== task.id);
  const [above, below] = [others[place - 1], others[place]];
  const moved = { ...task, ...grouped(task, above, below) };
  const changes = difference(task, moved);
  if (fits(moved, above, below)) return changes ? [[task.id, changes]] : [];
  return queued(task, moved, others, place);
}

const fits = (task, above, below) => (!above || inOrder(above, task) < 0) && (!below || inOrder(task, below) < 0);

/** The changes that put it in the group of its neighbours: none, or the values of one of them. */
function grouped(task, above, below) {
  const between = (!above || sameGroup(above, task) <= 0) && (!below || sameGroup(task, below) <= 0);
  if (between) return {};
  const like = below && (!above || sameGroup(task, above) < 0 || sameGroup(below, task) < 0) ? below : above;
  const other = like ?? above ?? below;
  return { service_class: other.service_class, override: !!other.override, priority: other.priority };
}

function difference(task, moved) {
  const changes = {};
  for (const name of ["service_class", "override", "priority"]) {
    if ((moved[name] ?? false) !== (task[name] ?? false)) changes[name] = moved[name];
  }
  return Object.keys(changes).length ? changes : null;
}

/** Within a group, the queue time decides. */
function queued(task, moved, others, place) {
  const mates = (other) => other && sameGroup(other, moved) === 0;
  const [above, below] = [others[place - 1], others[place]];
  const changes = difference(task, moved) ?? {};
  if (!mates(above)) return [[task.id, { ...changes, queued_at: timeOf(micros(below.queued_at) - 1000n) }]];
  const after = micros(above.queued_at);
  if (!mates(below)) return [[task.id, { ...changes, queued_at: timeOf(after + 1000n) }]];
  const room = micros(below.queued_at) - after;
  if (room > 1n) return [[task.id, { ...changes, queued_at: timeOf(after + room / 2n) }]];
  return crowded(task, changes, others, place, mates);
}

/** All queued at one moment: tasks above the position move forward one step each, the task right behind them. */
function crowded(task, changes, others, place, mates) {
  const moment = micros(others[place].queued_at);
  let first = place;
  while (first > 0 && mates(others[first - 1]) && moment - micros(others[first - 1].queued_at) <= 1n) first -= 1;
  const before = mates(others[first - 1]) ? micros(others[first - 1].queued_at) : moment - 1_000_000n;
  const movers = [...others.slice(first, place).map((other) => [other.id, {}]), [task.id, changes]];
  const step = (moment - before) / BigInt(movers.length + 1);
  if (step < 1n) return [[task.id, { ...changes, override: true }]];
  return movers.map(([id, said], index) => [id, { ...said, queued_at: timeOf(before + step * BigInt(index + 1)) }]);
}
