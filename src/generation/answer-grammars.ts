// Compiles response formats off the event loop: one thread for all models, accounts in turn, within a time limit.
// Results are cached up to a number of bytes.

import { createHash } from 'node:crypto';
import type { Expression } from '../grammar/expression.ts';
import { GrammarError } from '../grammar/grammar-error.ts';
import { type GrammarTables, tableBytes } from '../grammar/tables.ts';
import type { VocabularyTables } from '../grammar/vocabulary.ts';
import type { ServedModel } from '../pool/served-model.ts';
import { type JobCaller, JobQueue, JobTooLong } from '../runtime/job-queue.ts';
import type { Tokenizer } from '../text/tokenizer.ts';
import type { CheckedText, Controls, GrammarJob, GrammarResult } from './grammar-worker.ts';

const entry = new URL('../../dist/generation/grammar-worker.js', import.meta.url);

const LIMIT_MS = 5000;
const HEAP_MB = 1024;
const MAX_KEPT_BYTES = 64 * 2 ** 20;
const REFUSAL_BYTES = 1000;

interface CompiledAnswer {
  readonly tables: GrammarTables;
  /** What of schemas is unknown or not enforced. */
  readonly notes: readonly string[];
  /** Whether it allows more than is valid. */
  readonly isLoose: boolean;
}

type GrammarModel = Pick<ServedModel, 'path' | 'tokenizer' | 'engine'>;

interface Vocabulary {
  readonly tables: VocabularyTables;
  readonly controls: Controls;
}

type Verdict = Extract<GrammarResult, { kind: 'compiled' | 'refused' }>;

export class AnswerGrammars {
  readonly #compiling = new JobQueue<GrammarJob, GrammarResult>({
    entry,
    limitMs: LIMIT_MS,
    resourceLimits: { maxOldGenerationSizeMb: HEAP_MB },
  });
  /** Separate: reading a vocabulary has no time limit. */
  readonly #reading = new JobQueue<GrammarJob, GrammarResult>({ entry });
  readonly #vocabularies = new WeakMap<Tokenizer, Promise<Vocabulary>>();
  readonly #verdicts = new Map<string, Verdict>();
  #keptBytes = 0;

  /** Also passes the vocabulary to the model's engine. Throws GrammarError. */
  async compile(model: GrammarModel, expression: Expression, caller: JobCaller): Promise<CompiledAnswer> {
    const { tables: vocabulary, controls } = await this.#vocabulary(model);
    caller.signal?.throwIfAborted();
    const key = keyOf(expression, controls);
    const verdict = this.#verdicts.get(key) ?? (await this.#verdict(expression, controls, caller));
    // A timeout depends on what else the machine did.
    if (verdict !== tooMuch) this.#keep(key, verdict);
    if (verdict.kind === 'refused') throw new GrammarError(verdict.problem, verdict.message, verdict.keyword);
    model.engine.setVocabulary(vocabulary);
    return verdict;
  }

  /** Whether all of these texts are valid; null where that cannot be said, or not in time. */
  async areValid(texts: readonly CheckedText[], caller: JobCaller): Promise<boolean | null> {
    try {
      const result = await this.#compiling.run({ kind: 'check', texts }, caller);
      if (result.kind !== 'checked') throw new Error('the thread answered with no check');
      return result.isValid;
    } catch (error) {
      if (error instanceof JobTooLong || isOutOfMemory(error)) return null;
      throw error;
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.#compiling.close(), this.#reading.close()]);
  }

  /** Read once for each model; an abort does not stop it. */
  #vocabulary({ path, tokenizer }: GrammarModel): Promise<Vocabulary> {
    const known = this.#vocabularies.get(tokenizer);
    if (known !== undefined) return known;
    const reading = this.#reading.run({ kind: 'vocabulary', path }, {}).then((result) => {
      if (result.kind !== 'vocabulary') throw new Error('the thread answered with no vocabulary');
      return result;
    });
    this.#vocabularies.set(tokenizer, reading);
    reading.catch(() => this.#vocabularies.delete(tokenizer));
    return reading;
  }

  async #verdict(expression: Expression, controls: Controls, caller: JobCaller): Promise<Verdict> {
    try {
      const result = await this.#compiling.run({ kind: 'compile', expression, controls }, caller);
      if (result.kind === 'vocabulary' || result.kind === 'checked')
        throw new Error('the thread answered with no grammar');
      return result;
    } catch (error) {
      if (error instanceof JobTooLong || isOutOfMemory(error)) return tooMuch;
      throw error;
    }
  }

  #keep(key: string, verdict: Verdict): void {
    const bytes = bytesOf(verdict);
    const known = this.#verdicts.delete(key);
    this.#verdicts.set(key, verdict);
    if (!known) this.#keptBytes += bytes;
    for (const [oldest, one] of this.#verdicts) {
      if (this.#keptBytes <= MAX_KEPT_BYTES || oldest === key) break;
      this.#verdicts.delete(oldest);
      this.#keptBytes -= bytesOf(one);
    }
  }
}

const tooMuch: Verdict = {
  kind: 'refused',
  problem: 'too-large',
  message: `the grammar takes more than ${LIMIT_MS} ms of the processor, or more memory than there is, to compile`,
  keyword: undefined,
};

function isOutOfMemory(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ERR_WORKER_OUT_OF_MEMORY';
}

function bytesOf(verdict: Verdict): number {
  return verdict.kind === 'compiled' ? tableBytes(verdict.tables) : REFUSAL_BYTES;
}

function keyOf(expression: Expression, controls: Controls): string {
  return createHash('sha256')
    .update(JSON.stringify([expression, [...controls]]))
    .digest('base64');
}
