// One run from the start of the server to its end: learn the answers, measure, disturb, let it calm down, measure again,
// end it. Prints a commentary to standard error and one line of JSON to standard output.

import { setTimeout as sleep } from 'node:timers/promises';
import { makeAccounts } from './accounts.ts';
import { Admin } from './admin.ts';
import {
  askEverything,
  checkCounters,
  checkQuiet,
  checkUnloading,
  checkUsage,
  learnAnswers,
  loadBoth,
} from './calm.ts';
import { Chance } from './chance.ts';
import { type ChaosOptions, parseOptions } from './chaos-options.ts';
import { steadyClient } from './clients.ts';
import { type Closing, closeServer } from './closing.ts';
import { CounterWatch } from './counters.ts';
import { disturb } from './disturber.ts';
import { type Footprint, footprint, growth, smaller } from './footprint.ts';
import { probe } from './prober.ts';
import { type Abilities, schedule } from './schedule.ts';
import { ServerHome } from './server.ts';
import { Tally } from './tally.ts';
import { Timeline } from './timeline.ts';
import type { Trial } from './trial.ts';
import { Violations } from './violations.ts';

const CLIENTS = 6;
/** How long memory is watched after each round of work, and how many rounds it may take to settle. */
const CALM_MS = 4000;
const BASELINE_ROUNDS = 2;
const WARM_UP_MS = 8000;
const MOST_ROUNDS = 8;
/** Everything beside the disturbances themselves. */
const OVERHEAD_LIMIT_MS = 20 * 60_000;
const COMMENT_MS = 15_000;

interface Findings {
  before?: Footprint;
  after?: Footprint;
  closing?: Closing;
}

/** The exit code. `root`: of the checkout. */
export async function chaos(words: readonly string[], root: string): Promise<number> {
  const options = parseOptions(words, Date.now() % 2 ** 32);
  if (typeof options === 'string') {
    process.stderr.write(`${options}\n`);
    return 2;
  }
  const home = new ServerHome(root);
  const timeline = new Timeline();
  const say = (line: string) => void process.stderr.write(`${timeline.clock().padStart(8)}  ${line}\n`);
  const violations = new Violations(timeline, say);
  const tally = new Tally();
  const findings: Findings = {};
  const interrupted = endOnSignals(home);
  const limit = setTimeout(
    () => {
      violations.add('the run did not end', 'it was broken off');
      report(options, findings, { tally, timeline, violations });
      void home.remove().finally(() => process.exit(1));
    },
    options.minutes * 60_000 + OVERHEAD_LIMIT_MS,
  );
  try {
    say(`chaos for ${options.minutes} minutes with seed ${options.seed}`);
    const trial = await begin(home, { timeline, violations, tally, say });
    await whole(trial, home, options, findings);
    report(options, findings, trial);
  } catch (error) {
    violations.add(
      'the run broke off',
      error instanceof Error ? (error.stack ?? error.message) : String(error),
    );
    report(options, findings, { tally, timeline, violations });
  } finally {
    clearTimeout(limit);
    interrupted.forget();
    await home.remove();
  }
  return violations.total === 0 ? 0 : 1;
}

async function begin(
  home: ServerHome,
  parts: Pick<Trial, 'timeline' | 'violations' | 'tally' | 'say'>,
): Promise<Trial> {
  const adminKey = home.createAdminKey();
  const server = await home.start((message) => {
    // The watchdog's own work; ends that others brought about are known already.
    if (message.includes('said nothing')) parts.timeline.death();
  });
  const admin = new Admin(server.url, adminKey);
  const accounts = await makeAccounts(admin);
  return { ...parts, server, admin, accounts, references: new Map(), counters: new CounterWatch() };
}

async function whole(
  trial: Trial,
  home: ServerHome,
  options: ChaosOptions,
  findings: Findings,
): Promise<void> {
  const { say, violations, server } = trial;
  let closing = false;
  void server.exited.then(({ code, signal }) => {
    if (closing) return;
    violations.add('the server died', `exit code ${code}, signal ${signal}\n${server.log.recent()}`);
  });
  await learnAnswers(trial);
  say(`${trial.references.size} answers are known`);
  // A little of what is to come belongs to the warm-up: code runs for the first time then, and memory grows to its plateau.
  const chance = new Chance(options.seed);
  await disturbed(trial, chance.branch('warm-up'), WARM_UP_MS, { watchdog: false });
  await checkQuiet(trial);
  await loadBoth(trial);
  const before = await smallest(trial, BASELINE_ROUNDS);
  findings.before = before;
  say(`calm: ${told(before)}`);
  await disturbed(trial, chance.branch('chaos'), options.minutes * 60_000, server);
  if (!server.alive) return;
  say('calming down');
  await checkQuiet(trial);
  await checkCounters(trial);
  await checkUnloading(trial);
  findings.after = await settled(trial, before);
  say(`calm: ${told(findings.after)}`);
  await checkUsage(trial);
  closing = true;
  findings.closing = await closeServer(trial, home);
  for (const cry of server.log.cries.slice(0, 50)) violations.add('a cry on standard error', cry);
}

async function disturbed(
  trial: Trial,
  chance: Chance,
  durationMs: number,
  abilities: Abilities,
): Promise<void> {
  const planned = schedule(chance.branch('schedule'), durationMs, abilities);
  const stop = new AbortController();
  void trial.server.exited.then(() => stop.abort());
  const comment = setInterval(() => {
    const { tally, violations } = trial;
    trial.say(`${tally.total} requests, ${violations.total} violations`);
  }, COMMENT_MS);
  const clients = Array.from({ length: CLIENTS }, (_, n) =>
    steadyClient(trial, chance.branch(`client ${n}`), stop.signal),
  );
  const prober = probe(trial, chance.branch('prober'), stop.signal);
  const disturber = disturb(trial, planned, chance.branch('disturber'), stop.signal);
  await Promise.race([sleep(durationMs), trial.server.exited]);
  stop.abort();
  await Promise.all([...clients, prober, disturber]);
  clearInterval(comment);
}

/** The smallest footprint over rounds of the same work, each followed by calm. */
async function smallest(trial: Trial, rounds: number): Promise<Footprint> {
  let least: Footprint | undefined;
  for (let round = 0; round < rounds; round++) {
    await askEverything(trial);
    await checkQuiet(trial);
    const now = await footprint(trial, CALM_MS);
    least = least === undefined ? now : smaller(least, now);
  }
  return least as Footprint;
}

/** Works until the footprint is what it was before; complains where it never is. */
async function settled(trial: Trial, before: Footprint): Promise<Footprint> {
  await loadBoth(trial);
  let after = await smallest(trial, 1);
  // Another number of engines is no matter of time.
  const mayChange = () => after.engines === before.engines && growth(before, after).length > 0;
  for (let round = 1; round < MOST_ROUNDS && mayChange(); round++) {
    after = smaller(after, await smallest(trial, 1));
  }
  for (const complaint of growth(before, after)) trial.violations.add('not back to where it was', complaint);
  return after;
}

function told({ serverBytes, enginesBytes, engines, timers }: Footprint): string {
  const megabytes = (bytes: number) => `${(bytes / 1e6).toFixed(0)} MB`;
  return `server ${megabytes(serverBytes)}, ${engines} engines ${megabytes(enginesBytes)}, ${timers} timers`;
}

function report(
  { minutes, seed }: ChaosOptions,
  { before, after, closing }: Findings,
  { tally, timeline, violations, server }: Pick<Trial, 'tally' | 'timeline' | 'violations'> & Partial<Trial>,
): void {
  const line = {
    seed,
    minutes,
    requests: { total: tally.total, ...sorted(tally.outcomes) },
    disturbances: sorted(timeline.counts),
    preemptions: tally.preemptions,
    violationCount: violations.total,
    violationKinds: violations.counts,
    violations: violations.list,
    footprint: { before, after },
    closing,
    loggedErrors: server?.log.errors,
  };
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

function sorted(counts: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(counts).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Whoever breaks the run off leaves no server behind. */
function endOnSignals(home: ServerHome): { forget(): void } {
  const end = () => void home.remove().finally(() => process.exit(130));
  process.once('SIGINT', end);
  process.once('SIGTERM', end);
  return {
    forget() {
      process.off('SIGINT', end);
      process.off('SIGTERM', end);
    },
  };
}
