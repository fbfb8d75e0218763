// One run: learn the answers, measure, disturb the server through all its lives, let it calm down, measure again, end it,
// and look into the books. Prints a commentary to standard error and one line of JSON to standard output.

import { makeAccounts } from './accounts.ts';
import { Admin, type AdminStats } from './admin.ts';
import { batchClient } from './batches.ts';
import { Books } from './books.ts';
import {
  askEverything,
  checkBooks,
  checkCounters,
  checkQuiet,
  checkUnloading,
  learnAnswers,
  loadBoth,
} from './calm.ts';
import { Chance } from './chance.ts';
import { type ChaosOptions, parseOptions } from './chaos-options.ts';
import { steadyClient } from './clients.ts';
import type { Closing } from './closing.ts';
import { conversationClient, learnConversation } from './conversations.ts';
import { disturb } from './disturber.ts';
import { type Footprint, footprint, growth, smaller } from './footprint.ts';
import { HoldUps } from './hold-ups.ts';
import { probe } from './prober.ts';
import { type Abilities, type Life, lives, type Stop, schedule, shortDeck } from './schedule.ts';
import { plainSettings, ServerHome } from './server.ts';
import { ServerLives } from './server-lives.ts';
import { Tally } from './tally.ts';
import { Timeline } from './timeline.ts';
import type { Trial } from './trial.ts';
import { Violations } from './violations.ts';

const CLIENTS = 6;
/** How long memory is watched after each round of work, and how many rounds it may take to settle. */
const CALM_MS = 4000;
const BASELINE_ROUNDS = 2;
const WARM_UP_MS = 8000;
const WARM_UP: Abilities = { watchdog: false };
const MOST_ROUNDS = 8;
/** Everything beside the disturbances themselves. */
const OVERHEAD_LIMIT_MS = 20 * 60_000;
const COMMENT_MS = 15_000;

interface Findings {
  before?: Footprint;
  after?: Footprint;
  stops: Closing[];
}

/** How the run ends: nobody is kept waiting. */
const lastStop: Stop = { kind: 'SIGTERM', drainMs: 0 };

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
  const findings: Findings = { stops: [] };
  const holdUps = new HoldUps();
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
    const books = new Books((fromMs, toMs) => holdUps.between(fromMs, toMs));
    const servers = new ServerLives(home, { timeline, violations, books, holdUps });
    const trial = await begin(home, servers, { timeline, violations, tally, say });
    await whole(trial, servers, options, findings);
    report(options, findings, { tally, timeline, violations, loggedErrors: servers.errors });
  } catch (error) {
    violations.add(
      'the run broke off',
      error instanceof Error ? (error.stack ?? error.message) : String(error),
    );
    report(options, findings, { tally, timeline, violations });
  } finally {
    clearTimeout(limit);
    holdUps.end();
    interrupted.forget();
    await home.remove();
  }
  return violations.total === 0 ? 0 : 1;
}

async function begin(
  home: ServerHome,
  servers: ServerLives,
  parts: Pick<Trial, 'timeline' | 'violations' | 'tally' | 'say'>,
): Promise<Trial> {
  await home.prepare();
  const adminKey = home.createAdminKey();
  await servers.start(plainSettings);
  const admin = new Admin(home.url, adminKey);
  const accounts = await makeAccounts(admin);
  const { outages, counters, books, holdUps } = servers;
  return {
    ...parts,
    get server() {
      return servers.current;
    },
    outages,
    counters,
    books,
    holdUps,
    admin,
    accounts,
    references: new Map(),
  };
}

async function whole(
  trial: Trial,
  servers: ServerLives,
  options: ChaosOptions,
  findings: Findings,
): Promise<void> {
  const { say } = trial;
  await learnAnswers(trial);
  await learnConversation(trial);
  say(`${trial.references.size} answers are known`);
  const chance = new Chance(options.seed);
  servers.home.memoryOfOneBytes = memoryOfOne(await trial.admin.stats());
  // A run of a few kinds should show them soon: what the server holds is not measured then.
  if (options.only === undefined) findings.before = await baseline(trial, chance.branch('warm-up'));
  const { watchdog } = trial.server;
  const planned = lives(chance.branch('lives'), options.minutes * 60_000, { watchdog, only: options.only });
  await disturbed(trial, chance.branch('chaos'), () =>
    live(trial, servers, planned, chance.branch('disturber'), findings),
  );
  if (!trial.server.alive) return;
  say('calming down');
  await checkQuiet(trial);
  await checkCounters(trial);
  await checkUnloading(trial);
  if (findings.before !== undefined) {
    findings.after = await settled(trial, findings.before);
    say(`calm: ${told(findings.after)}`);
  }
  findings.stops.push(await servers.stop(trial, lastStop));
  checkBooks(trial);
}

/** A little of what is to come belongs to it: code runs for the first time then, and memory grows to its plateau. */
async function baseline(trial: Trial, chance: Chance): Promise<Footprint> {
  const planned = schedule(chance.branch('schedule'), WARM_UP_MS, WARM_UP, shortDeck);
  await disturbed(trial, chance, () => disturb(trial, planned, chance, WARM_UP_MS));
  await checkQuiet(trial);
  await loadBoth(trial);
  const least = await smallest(trial, BASELINE_ROUNDS);
  trial.say(`calm: ${told(least)}`);
  return least;
}

/** One life after another, each with what is planned for it. */
async function live(
  trial: Trial,
  servers: ServerLives,
  planned: readonly Life[],
  chance: Chance,
  findings: Findings,
): Promise<void> {
  for (const [at, { settings, durationMs, planned: disturbances, stop }] of planned.entries()) {
    if (at > 0) await servers.start(settings);
    trial.say(`life ${at + 1} of ${planned.length}: ${JSON.stringify(settings)}`);
    await disturb(trial, disturbances, chance.branch(`life ${at}`), durationMs);
    if (stop !== undefined) findings.stops.push(await servers.stop(trial, stop));
  }
}

/** Clients, batches and those who look on, for as long as something is done. */
async function disturbed(trial: Trial, chance: Chance, act: () => Promise<void>): Promise<void> {
  const stop = new AbortController();
  const comment = setInterval(() => {
    const { tally, violations } = trial;
    trial.say(`${tally.total} requests, ${violations.total} violations`);
  }, COMMENT_MS);
  const clients = Array.from({ length: CLIENTS }, (_, n) =>
    steadyClient(trial, chance.branch(`client ${n}`), stop.signal),
  );
  const prober = probe(trial, chance.branch('prober'), stop.signal);
  const batches = batchClient(trial, chance.branch('batches'), stop.signal);
  const conversations = conversationClient(trial, chance.branch('conversations'), stop.signal);
  try {
    await act();
  } finally {
    stop.abort();
    await Promise.all([...clients, prober, batches, conversations]);
    clearInterval(comment);
  }
}

/** What either model takes, and not both. */
function memoryOfOne({ models }: AdminStats): number {
  const sizes = models.map(({ memoryBytes = 0 }) => memoryBytes);
  return Math.ceil(Math.max(...sizes) + Math.min(...sizes) / 2);
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

function told({ serverBytes, enginesBytes, engines, timers, descriptors }: Footprint): string {
  const megabytes = (bytes: number) => `${(bytes / 1e6).toFixed(0)} MB`;
  return `server ${megabytes(serverBytes)}, ${engines} engines ${megabytes(enginesBytes)}, ${timers} timers, ${descriptors} descriptors`;
}

function report(
  { minutes, seed, only }: ChaosOptions,
  { before, after, stops }: Findings,
  {
    tally,
    timeline,
    violations,
    loggedErrors,
  }: Pick<Trial, 'tally' | 'timeline' | 'violations'> & { readonly loggedErrors?: object },
): void {
  const chosen = only === undefined ? '' : ` --only '${[...only].join(',')}'`;
  const line = {
    seed,
    minutes,
    again: `npm run chaos -- --minutes ${minutes} --seed ${seed}${chosen}`,
    requests: { total: tally.total, ...sorted(tally.outcomes) },
    disturbances: sorted(timeline.counts),
    preemptions: tally.preemptions,
    violationCount: violations.total,
    violationKinds: violations.counts,
    violations: violations.list,
    footprint: { before, after },
    stops,
    loggedErrors,
  };
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

function sorted(counts: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(counts).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** A run that is broken off leaves no server running. */
function endOnSignals(home: ServerHome): { forget(): void } {
  let ending = false;
  // Heard again, as by a whole process group, it must not break off the clearing away.
  const end = () => {
    if (ending) return;
    ending = true;
    void home.remove().finally(() => process.exit(130));
  };
  process.on('SIGINT', end);
  process.on('SIGTERM', end);
  return {
    forget() {
      process.off('SIGINT', end);
      process.off('SIGTERM', end);
    },
  };
}
