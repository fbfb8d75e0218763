// `npm run bench -- schemas FOLDER [PYTHON]`: how many schemas of a folder compile, and how long the first mask takes, beside
// llguidance and xgrammar where PYTHON has both. Each file is a schema, or a list of objects with a `schema`, as tool
// definitions are collected. The three take turns over one vocabulary. Ends in one JSON line.

import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { median } from '#src/bench/statistics.ts';
import { rulesOf } from '#src/grammar/assemble.ts';
import { compileRules } from '#src/grammar/compile.ts';
import type { Expression } from '#src/grammar/expression.ts';
import { GrammarError } from '#src/grammar/grammar-error.ts';
import { SharedMasks } from '#src/grammar/masks.ts';
import { Grammar, Matcher } from '#src/grammar/matcher.ts';
import { vocabularyTables } from '#src/grammar/vocabulary.ts';
import { giveUp, print, report } from './harness.ts';
import { largeVocabulary } from './large-vocabulary.ts';

const peerProgram = fileURLToPath(new URL('../../bench/schema-peers.py', import.meta.url));
const ROUNDS = 1;
const LIMIT_MS = 20_000;

interface Outcome {
  readonly ms: number;
  readonly error?: string | undefined;
}

type Compiler = (schema: unknown) => Outcome | Promise<Outcome>;

function schemasOf(folder: string): unknown[] {
  const files = readdirSync(folder).filter((name) => name.endsWith('.json'));
  const all = files.sort().flatMap((name): unknown[] => {
    const content: unknown = JSON.parse(readFileSync(join(folder, name), 'utf8'));
    return Array.isArray(content) ? content.map(({ schema }) => schema) : [content];
  });
  return [...new Map(all.map((schema) => [JSON.stringify(schema), schema])).values()];
}

/** Nothing is known from before: masks of strings and numbers are made anew. */
function ours(more: Partial<Extract<Expression, { kind: 'schema' }>>): Compiler {
  return (schema) => {
    const startMs = performance.now();
    try {
      const { rules } = rulesOf({ kind: 'schema', schema, ...more }, () => undefined);
      const grammar = new Grammar(compileRules(rules), vocabulary, new SharedMasks(2000));
      new Matcher(grammar, true).mask();
      return { ms: performance.now() - startMs };
    } catch (error) {
      if (!(error instanceof GrammarError)) throw error;
      return { ms: performance.now() - startMs, error: error.message };
    }
  };
}

/** A program that answers each line with a line. One that takes too long is started anew. */
class Peers {
  readonly #start: () => ChildProcess;
  #process: ChildProcess;
  #lines: AsyncIterator<string>;
  versions: Record<string, unknown> = {};

  constructor(python: string, vocabularyFile: string) {
    this.#start = () => spawn(python, [peerProgram, vocabularyFile], { stdio: ['pipe', 'pipe', 'ignore'] });
    this.#process = this.#start();
    this.#lines = linesOf(this.#process);
  }

  async ready(): Promise<void> {
    this.versions = JSON.parse((await this.#line()) ?? giveUp('the peers cannot be started')) as Record<
      string,
      unknown
    >;
  }

  compiler(peer: string): Compiler {
    return async (schema) => {
      this.#process.stdin?.write(`${JSON.stringify({ peer, schema: JSON.stringify(schema) })}\n`);
      const line = await Promise.race([this.#line(), sleep(LIMIT_MS, undefined, { ref: false })]);
      if (line !== undefined) return JSON.parse(line) as Outcome;
      this.#process.kill('SIGKILL');
      this.#process = this.#start();
      this.#lines = linesOf(this.#process);
      await this.ready();
      return { ms: LIMIT_MS, error: `ended, or took more than ${LIMIT_MS} ms` };
    };
  }

  close(): void {
    this.#process.stdin?.end();
  }

  async #line(): Promise<string | undefined> {
    const { value, done } = await this.#lines.next();
    return done ? undefined : (value as string);
  }
}

function linesOf({ stdout }: ChildProcess): AsyncIterator<string> {
  if (stdout === null) throw new Error('the peers have no output');
  return createInterface({ input: stdout })[Symbol.asyncIterator]();
}

const [folder, python] = process.argv.slice(2);
if (folder === undefined) giveUp('give a folder of schemas');
const schemas = schemasOf(folder);
const source = largeVocabulary(undefined);
const vocabulary = vocabularyTables(source);
print(`${schemas.length} different schemas, ${vocabulary.size} tokens`);

const compilers = new Map<string, Compiler>([
  ['enforced', ours({})],
  ['closest', ours({ lenient: 'closest' })],
]);
let peers: Peers | undefined;
const work = mkdtempSync(join(tmpdir(), 'chairlift-schemas-'));
if (python !== undefined) {
  const file = join(work, 'vocabulary.txt');
  const tokens = Array.from({ length: source.vocabSize }, (_, id) =>
    Buffer.from(source.tokenBytes(id)).toString('hex'),
  );
  writeFileSync(file, `${[...source.eosIds][0]}\n${tokens.join('\n')}\n`);
  peers = new Peers(python, file);
  await peers.ready();
  for (const peer of ['llguidance', 'xgrammar']) compilers.set(peer, peers.compiler(peer));
}

const names = [...compilers.keys()];
const times = new Map(names.map((name) => [name, [] as number[]]));
const refusals = new Map(names.map((name) => [name, new Map<string, number>()]));
for (const [at, schema] of schemas.entries()) {
  const own = new Map(names.map((name) => [name, [] as number[]]));
  for (let round = 0; round < ROUNDS; round++) {
    for (let turn = 0; turn < names.length; turn++) {
      const name = names[(turn + at + round) % names.length] as string;
      const { ms, error } = await (compilers.get(name) as Compiler)(schema);
      if (error === undefined) own.get(name)?.push(ms);
      else if (round === 0) {
        const reason = error.split('\n')[0]?.slice(0, 160) ?? '';
        refusals.get(name)?.set(reason, (refusals.get(name)?.get(reason) ?? 0) + 1);
      }
    }
  }
  for (const [name, measured] of own) if (measured.length > 0) times.get(name)?.push(median(measured));
}
peers?.close();
rmSync(work, { recursive: true });

const quantile = (values: readonly number[], share: number) =>
  [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(share * values.length))] ??
  Number.NaN;
const result = Object.fromEntries(
  names.map((name) => {
    const own = times.get(name) as number[];
    return [
      name,
      {
        compiled: own.length,
        firstMaskMs: median(own),
        p95Ms: quantile(own, 0.95),
        slowestMs: quantile(own, 1),
      },
    ];
  }),
);
for (const [name, reasons] of refusals) {
  for (const [reason, count] of [...reasons].sort(([, a], [, b]) => b - a).slice(0, 12))
    print(`${name} refused ${count}: ${reason}`);
}
report('schemas', {
  schemas: schemas.length,
  vocabulary: vocabulary.size,
  versions: peers?.versions,
  ...result,
});
