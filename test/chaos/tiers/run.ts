// The chaos run of the prefix cache's tier on disk: two servers on one folder are asked the same long prompts again and again, while
// they and the folder are disturbed. Every answer must be the undisturbed one, and the folder whole after each era: a time with one
// size and one age of the store. Prints a commentary to standard error and one line of JSON to standard output.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Chance } from '../chance.ts';
import { parseOptions } from '../chaos-options.ts';
import { Tally } from '../tally.ts';
import { Timeline } from '../timeline.ts';
import { Violations } from '../violations.ts';
import { CacheFolder } from './cache-folder.ts';
import { CacheServer } from './cache-server.ts';
import { disturb, type Scene } from './disturbances.ts';
import { ask, learn, makeQuestions, type Question } from './questions.ts';

const MIB = 2 ** 20;
const ERA_MS = 45_000;
const CLIENTS = 3;
/** A topic has about 12 MiB of blocks. */
const TOPICS = 10;
const TOPICS_OF_A_SHORT_RUN = 3;
const SIZES = [8 * MIB, 24 * MIB, 256 * MIB];
/** 0: no limit. */
const AGES_S = [0, 8, 3600];
/** What two servers may write at once beyond the size, having looked for room at the same time. */
const SIZE_SLACK_BYTES = 2 * MIB;
/** A segment grows old as a whole, and servers look every 5 s. */
const AGE_SLACK_S = 8;
const CALM_LIMIT_MS = 45_000;
const CALM_QUESTIONS = 6;

interface Run {
  readonly scene: Scene;
  readonly questions: readonly Question[];
  readonly answers: ReadonlyMap<Question, string>;
  readonly violations: Violations;
  readonly tally: Tally;
  readonly say: (line: string) => void;
  /** Prompt tokens that were not computed. */
  cachedTokens: number;
  whole: number;
  damaged: number;
}

/** The exit code. `root`: of the checkout. */
export async function chaosOfTiers(words: readonly string[], root: string): Promise<number> {
  const options = parseOptions(words, Date.now() % 2 ** 32);
  if (typeof options === 'string' || options.only !== undefined) {
    const problem = typeof options === 'string' ? options : '--only is for the other run';
    process.stderr.write(`${problem}\nfor tiers: npm run chaos -- tiers [--minutes N] [--seed S]\n`);
    return 2;
  }
  const { minutes, seed } = options;
  const timeline = new Timeline();
  const say = (line: string) => void process.stderr.write(`${timeline.clock().padStart(8)}  ${line}\n`);
  const violations = new Violations(timeline, say);
  const home = mkdtempSync(join(tmpdir(), 'chairlift-chaos-tiers-'));
  const servers = ['A', 'B'].map((name) => {
    const onCry = (line: string) => violations.add('a cry on standard error', line);
    return new CacheServer({ root, home, name, fullDiskFile: join(home, 'full'), onCry });
  });
  const tally = new Tally();
  let run: Run | undefined;
  try {
    say(`chaos of tiers for ${minutes} minutes with seed ${seed}`);
    const chance = new Chance(seed);
    run = await begin(root, home, servers, { minutes, chance, timeline, violations, tally, say });
    await live(run, chance, minutes * 60_000);
  } catch (error) {
    violations.add(
      'the run broke off',
      error instanceof Error ? (error.stack ?? error.message) : String(error),
    );
  } finally {
    await Promise.all(servers.map((server) => server.kill()));
    rmSync(home, { recursive: true, force: true, maxRetries: 5 });
  }
  report({ minutes, seed, timeline, violations, tally, servers, run });
  return violations.total === 0 ? 0 : 1;
}

interface Beginning extends Pick<Run, 'violations' | 'tally' | 'say'> {
  readonly minutes: number;
  readonly chance: Chance;
  readonly timeline: Timeline;
}

async function begin(
  root: string,
  home: string,
  servers: readonly CacheServer[],
  parts: Beginning,
): Promise<Run> {
  const { minutes, chance, timeline, violations, tally, say } = parts;
  const questions = makeQuestions(minutes < 1 ? TOPICS_OF_A_SHORT_RUN : TOPICS, chance.branch('questions'));
  const [first] = servers as [CacheServer];
  await first.start();
  const answers = await learn(first.url, questions);
  await first.stop();
  say(`${answers.size} answers are known`);
  const folder = new CacheFolder(root, home);
  const scene: Scene = {
    ...{ servers, folder, timeline, flips: 0 },
    fullDiskFile: join(home, 'full'),
    settings: { folder: folder.path, sizeBytes: SIZES[0] as number, ageSeconds: 0 },
    onBadStop: (detail) => violations.add('a stop in good order failed', detail),
    onBadCommand: (detail) => violations.add('a command failed', detail),
  };
  return { scene, questions, answers, violations, tally, say, cachedTokens: 0, whole: 0, damaged: 0 };
}

async function live(run: Run, chance: Chance, totalMs: number): Promise<void> {
  const endMs = performance.now() + totalMs;
  const { scene } = run;
  const settings = chance.branch('settings');
  for (let era = 0; performance.now() < endMs; era++) {
    const before = scene.settings;
    scene.settings = { ...before, sizeBytes: settings.pick(SIZES), ageSeconds: settings.pick(AGES_S) };
    const { sizeBytes, ageSeconds } = scene.settings;
    run.say(
      `era ${era}: ${sizeBytes / MIB} MiB, age ${ageSeconds} s; ${answered(run)} answers, ${run.violations.total} violations`,
    );
    await Promise.all(scene.servers.map((server) => server.start(scene.settings)));
    await disturbed(run, chance.branch(`era ${era}`), Math.min(endMs, performance.now() + ERA_MS));
    await checkCalm(run);
    await endServers(run, chance.branch(`end ${era}`));
    await checkFolder(run, Math.max(before.sizeBytes, sizeBytes), chance.branch(`check ${era}`));
  }
}

/** Clients and disturbances, until then. */
async function disturbed(run: Run, chance: Chance, untilMs: number): Promise<void> {
  const { scene, violations } = run;
  const clients = Array.from({ length: CLIENTS }, (_, number) =>
    client(run, chance.branch(`client ${number}`), () => performance.now() < untilMs),
  );
  const watch = (async () => {
    while (performance.now() < untilMs) {
      await sleep(500);
      for (const server of scene.servers) {
        await server.readMetrics();
        if (server.hasDied) violations.add('a server died', `${server.name}\n${server.recent()}`);
      }
    }
  })();
  await Promise.all([...clients, watch, disturb(scene, chance.branch('disturbances'), untilMs)]);
}

async function client(run: Run, chance: Chance, goesOn: () => boolean): Promise<void> {
  while (goesOn()) {
    const server = chance.pick(run.scene.servers);
    await askOne(run, server, chance.pick(run.questions));
  }
}

/** Whether there was an answer. */
async function askOne(run: Run, server: CacheServer, question: Question): Promise<boolean> {
  const { violations, tally } = run;
  const reply = await ask(server.url, question);
  if (reply.kind === 'answer') {
    tally.count('answer');
    run.cachedTokens += reply.cachedTokens;
    const expected = run.answers.get(question);
    if (reply.text !== expected)
      violations.add('another answer', `${question.name} of ${server.name}: ${reply.text}`, { expected });
    return true;
  }
  if (reply.kind === 'refused') {
    tally.count(`${reply.status}`);
    if (reply.status !== 503)
      violations.add('an error', `${question.name} of ${server.name}: ${reply.status} ${reply.body}`);
  } else tally.count(reply.kind);
  if (reply.kind === 'late')
    violations.add('no answer', `${question.name} of ${server.name}\n${server.recent()}`);
  await sleep(200);
  return false;
}

function answered({ tally }: Run): number {
  return tally.outcomes.answer ?? 0;
}

/** Nobody disturbs any more: both servers answer, and nothing is kept that is too old. */
async function checkCalm(run: Run): Promise<void> {
  const { scene, violations } = run;
  const untilMs = performance.now() + CALM_LIMIT_MS;
  for (const server of scene.servers) {
    for (let number = 0; number < CALM_QUESTIONS && performance.now() < untilMs; ) {
      const question = run.questions[(7 * number) % run.questions.length] as Question;
      if (await askOne(run, server, question)) number += 1;
      else if (performance.now() >= untilMs)
        violations.add('no answer in the calm', `${server.name}\n${server.recent()}`);
    }
    await server.readMetrics();
  }
  const { ageSeconds } = scene.settings;
  if (ageSeconds === 0) return;
  const limitS = ageSeconds + ageSeconds / 8 + AGE_SLACK_S;
  for (;;) {
    const oldestS = (await scene.folder.oldestS()) ?? Number.POSITIVE_INFINITY;
    const ageNowS = Date.now() / 1000 - oldestS;
    if (ageNowS <= limitS) return;
    if (performance.now() >= untilMs) {
      violations.add('a block is too old', `${ageNowS} s, where ${ageSeconds} s are allowed`);
      return;
    }
    await sleep(500);
  }
}

async function endServers({ scene, violations }: Run, chance: Chance): Promise<void> {
  for (const server of scene.servers) {
    if (chance.happens(0.5)) await server.kill();
    else {
      const code = await server.stop();
      if (code !== 0)
        violations.add('a stop in good order failed', `${server.name}: ${code}\n${server.recent()}`);
    }
  }
}

/** Nobody uses the folder. It holds whole blocks but for those whose bits were flipped, and says so of each that is flipped now. */
async function checkFolder(run: Run, mostBytes: number, chance: Chance): Promise<void> {
  const { scene, violations, say } = run;
  const { folder } = scene;
  const bytes = folder.bytes();
  if (bytes > mostBytes + SIZE_SLACK_BYTES)
    violations.add('the folder is too large', `${bytes} bytes, where ${mostBytes} are allowed`);
  const { whole, damaged, unreadable } = await folder.verify();
  if (damaged + unreadable > scene.flips)
    violations.add(
      'more is damaged than was flipped',
      `${damaged} and ${unreadable} segments, after ${scene.flips} flips`,
    );
  const flipped = folder.flipBlocks(chance.between(0, 5), chance);
  const after = await folder.verify();
  if (after.damaged !== damaged + flipped || after.whole !== whole - flipped) {
    const told = JSON.stringify({ whole, damaged, flipped, after });
    violations.add('flipped blocks are not those that verify finds', told);
  }
  scene.flips += flipped;
  run.whole += whole;
  run.damaged += after.damaged;
  say(
    `${whole} whole blocks, ${damaged} damaged and ${unreadable} unreadable segments after ${scene.flips - flipped} flips, ${bytes} bytes`,
  );
  if (chance.happens(0.2) && folder.flipKey(chance)) {
    scene.timeline.note('key flipped');
    await checkLostKey(run);
  }
}

/** With a key that is damaged no block can be opened: servers make another one, and the commands say so. */
async function checkLostKey({ scene, violations }: Run): Promise<void> {
  const { folder, servers } = scene;
  const { code, errors } = await folder.command('verify');
  if (code !== 1 || !/cannot be read/.test(errors)) {
    if (!/There are no blocks/.test(errors) && code !== 0)
      violations.add('a damaged key is not told of', `${code}: ${errors}`);
  }
  const [first] = servers as [CacheServer];
  await first.start(scene.settings);
  await first.stop();
  await folder.command('rm', '--all');
  scene.flips = 0;
}

interface Report extends Pick<Run, 'tally' | 'violations'> {
  readonly minutes: number;
  readonly seed: number;
  readonly timeline: Timeline;
  readonly servers: readonly CacheServer[];
  readonly run: Run | undefined;
}

function report({ minutes, seed, timeline, violations, tally, servers, run }: Report): void {
  const moved: Record<string, number> = {};
  for (const server of servers)
    for (const [event, count] of Object.entries(server.moved)) moved[event] = (moved[event] ?? 0) + count;
  const line = {
    benchmark: 'chaos of tiers',
    again: `npm run chaos -- tiers --minutes ${minutes} --seed ${seed}`,
    requests: { total: tally.total, ...tally.outcomes },
    cachedTokens: run?.cachedTokens ?? 0,
    blocks: { ...moved, verified: run?.whole ?? 0, foundDamaged: run?.damaged ?? 0 },
    disturbances: timeline.counts,
    lives: servers.map(({ counts }) => counts),
    warnings: [...new Set(servers.flatMap(({ warnings }) => [...warnings]))],
    violations: violations.list,
    counts: violations.counts,
  };
  process.stdout.write(`${JSON.stringify(line)}\n`);
}
