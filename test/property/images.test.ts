// Random traffic of prompts with images and without: every answer is that of the request alone, whatever the chunks, hits,
// preemptions and cancellations; nothing is held in the end, and no image is looked at twice at once.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Engine } from '../../src/engine/engine.ts';
import type { FinishEvent } from '../../src/engine/request.ts';
import { checkIntegrity } from '../../src/engine/scheduler/integrity.ts';
import type { Priority } from '../../src/engine/scheduler/sequence.ts';
import type { BothWays } from '../../src/engine/scheduler/shown-images.ts';
import type { BudgetOptions } from '../../src/engine/scheduler/token-budget.ts';
import type { StepReport } from '../../src/engine/step-report.ts';
import { engineRequest } from '../support/engine-requests.ts';
import { cases } from '../support/thorough.ts';
import { END_TOKEN, HashBackend, VOCABULARY } from './hash-backend.ts';
import { type Character, randomDrafter } from './random-drafter.ts';
import { faultOf, HashTower, type Part, type SeenPrompt, seenAnswer, seenPrompt, vision } from './seeing.ts';

interface Submit {
  readonly kind: 'submit';
  /** Texts of one family begin alike. */
  readonly parts: readonly (
    | { readonly words: number; readonly family: number }
    | { readonly image: number }
  )[];
  readonly newTokens: number;
  readonly priority: Priority;
  readonly account: string;
  readonly salt: string;
  readonly choices: number;
}

type Command =
  | Submit
  | { readonly kind: 'cancel'; readonly which: number; readonly during: 'step' | 'piece' | 'pause' }
  | { readonly kind: 'preempt'; readonly which: number }
  /** Shows the same, and asks something else. */
  | { readonly kind: 'again'; readonly which: number }
  | { readonly kind: 'steps'; readonly count: number };

const text = fc.record({
  words: fc.oneof(fc.integer({ min: 1, max: 60 }), fc.constantFrom(31, 32, 64)),
  family: fc.integer({ min: 1, max: 2 }),
});
const image = fc.record({
  image: fc.oneof(
    { weight: 20, arbitrary: fc.nat(9) },
    { weight: 1, arbitrary: fc.integer({ min: 90, max: 92 }) },
  ),
});

const submit: fc.Arbitrary<Submit> = fc.record({
  kind: fc.constant('submit' as const),
  parts: fc.array(fc.oneof(text, image), { minLength: 1, maxLength: 5 }),
  newTokens: fc.integer({ min: 1, max: 40 }),
  priority: fc.constantFrom<Priority>(0, 1, 2),
  account: fc.constantFrom('', 'x', 'y'),
  salt: fc.constantFrom('', '', '', 'a'),
  choices: fc.constantFrom(1, 1, 1, 3),
});

const which = fc.nat(1000);
const command: fc.Arbitrary<Command> = fc.oneof(
  { weight: 6, arbitrary: submit },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('cancel' as const),
      which,
      during: fc.constantFrom('step' as const, 'piece' as const, 'pause' as const),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('preempt' as const), which }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('again' as const), which }) },
  {
    weight: 5,
    arbitrary: fc.record({ kind: fc.constant('steps' as const), count: fc.integer({ min: 1, max: 12 }) }),
  },
);

const budget: fc.Arbitrary<BudgetOptions> = fc.oneof(
  fc.record({ kind: fc.constant('fixed' as const), maxStepTokens: fc.integer({ min: 4, max: 200 }) }),
  fc.record({
    kind: fc.constant('adaptive' as const),
    targetStepMs: fc.integer({ min: 5, max: 200 }),
    maxStepTokens: fc.integer({ min: 4, max: 300 }),
  }),
);

const scenario = fc.record({
  blockCount: fc.integer({ min: 14, max: 40 }),
  budget,
  maxBatchSize: fc.oneof(fc.constant(64), fc.integer({ min: 1, max: 5 })),
  stateSlots: fc.constantFrom(undefined, undefined, 3, 8),
  bothWays: fc.constantFrom<BothWays | undefined>(undefined, undefined, 'images', 'images', 'prompts'),
  threeParts: fc.boolean(),
  /** In features of 16 bytes: none, little, all. */
  imageBytes: fc.constantFrom(0, 16 * 80, 16 * 300, 1 << 20),
  drafter: fc.constantFrom<Character>('silent', 'text', 'seer', 'liar'),
  prepares: fc.boolean(),
  commands: fc.array(command, { minLength: 1, maxLength: 25, size: 'max' }),
});

type Scenario = typeof scenario extends fc.Arbitrary<infer T> ? T : never;

interface Asked {
  readonly id: string;
  readonly seen: SeenPrompt;
  readonly choice: number;
  readonly newTokens: number;
  readonly faulty: boolean;
  readonly tokens: number[];
  finish: FinishEvent | undefined;
}

/** What the runs have met, over all of them. */
const met = { hits: 0, shared: 0, preemptions: 0, cancelled: 0, failed: 0, accepted: 0, prepared: 0 };

class Run {
  readonly #setting: Scenario;
  readonly #tower: HashTower;
  readonly #backend: HashBackend;
  readonly #engine: Engine;
  readonly #asked: Asked[] = [];
  #nowMs = 0;
  #ids = 0;
  #duringPiece: () => void = () => {};

  constructor(setting: Scenario) {
    const { blockCount, stateSlots, prepares, bothWays, drafter } = setting;
    this.#setting = setting;
    this.#tower = new HashTower(bothWays !== undefined, () => {
      this.#nowMs += 3;
      this.#duringPiece();
    });
    this.#backend = new HashBackend(blockCount, stateSlots, undefined, prepares, this.#tower);
    this.#backend.during = ({ tokens }) => {
      this.#nowMs += 5 + 0.5 * tokens.length;
    };
    this.#engine = new Engine(
      this.#backend,
      {
        ...setting,
        vision: { ...vision, bothWays },
        vocabSize: VOCABULARY,
        contextLength: 1 << 20,
        endIds: [END_TOKEN],
        newDrafter: (request, tokens) => {
          const asked = this.#asked.find(({ id }) => id === request.id) as Asked;
          const right = seenAnswer(asked.seen, asked.choice, 60).tokens;
          return randomDrafter(drafter, 0.7, request.prompt, asked.choice, tokens, right);
        },
      },
      (report) => this.#hear(report),
      () => this.#nowMs,
    );
  }

  async play(): Promise<void> {
    for (const [unique, each] of this.#setting.commands.entries()) {
      await this.#execute(each, unique);
      checkIntegrity(this.#engine.scheduler);
    }
    for (let steps = 0; this.#asked.some(({ finish }) => finish === undefined); steps++) {
      if (steps > 5000) throw new Error('it does not end');
      await this.#step();
    }
    this.#check();
  }

  async #execute(each: Command, unique: number): Promise<void> {
    const { running } = this.#engine.scheduler;
    switch (each.kind) {
      case 'submit':
        this.#submit(each, unique);
        return;
      case 'steps':
        for (let i = 0; i < each.count; i++) await this.#step();
        return;
      case 'cancel': {
        const asked = this.#asked[each.which % Math.max(1, this.#asked.length)];
        if (asked === undefined) return;
        const cancel = () => this.#engine.cancel(asked.id);
        if (each.during === 'pause') cancel();
        else if (each.during === 'piece') this.#duringPiece = cancel;
        else await this.#step(cancel);
        return;
      }
      case 'again': {
        const submits = this.#setting.commands.slice(0, unique).filter(({ kind }) => kind === 'submit');
        const before = submits[each.which % Math.max(1, submits.length)];
        if (before?.kind === 'submit') this.#submit(before, unique);
        return;
      }
      case 'preempt': {
        const sequence = running[each.which % Math.max(1, running.length)];
        if (sequence !== undefined && this.#engine.scheduler.planned === undefined) {
          this.#engine.scheduler.preempt(sequence);
        }
      }
    }
  }

  #submit({ parts, newTokens, priority, account, salt, choices }: Submit, unique: number): void {
    const { blockCount, bothWays, threeParts } = this.#setting;
    const written = parts.map((part, index): Part => {
      if ('image' in part) return part;
      const { words, family } = part;
      // The last words differ from one request to the next.
      const common = index < parts.length - 1 ? words : words - 3;
      const own = (at: number) => (at < common ? 1 + ((at * family) % 37) : 1 + ((at + unique) % 39));
      return { text: Array.from({ length: words }, (_, at) => own(at)) };
    });
    const showsNone = parts.every((part) => !('image' in part));
    const seen = seenPrompt(written, showsNone ? undefined : bothWays, threeParts && !showsNone);
    if (seen.tokens.length + newTokens > 32 * (blockCount - 1)) return;
    for (let choice = 0; choice < choices; choice++) {
      const request = engineRequest(
        {
          prompt: seen.tokens,
          choice,
          priority,
          account,
          salt,
          sampling: { maxTokens: newTokens },
          enqueuedMs: this.#nowMs,
        },
        VOCABULARY,
      );
      const id = `r${this.#ids++}`;
      const faulty = parts.some((part) => 'image' in part && faultOf(part.image) !== undefined);
      this.#asked.push({ id, seen, choice, newTokens, faulty, tokens: [], finish: undefined });
      this.#engine.submit({ ...request, id, ...(showsNone ? {} : { images: seen.images }) });
    }
  }

  async #step(during: () => void = () => {}): Promise<void> {
    const { during: before } = this.#backend;
    this.#backend.during = (batch) => {
      during();
      before(batch);
    };
    await this.#engine.step();
    this.#backend.during = before;
    checkIntegrity(this.#engine.scheduler);
    const { images } = this.#engine.stats(this.#nowMs);
    const { bytes = 0, usedBytes = 0, limitBytes = 0 } = images ?? {};
    expect(bytes, 'images are kept within the limit, or are in use').toBeLessThanOrEqual(
      Math.max(limitBytes, usedBytes),
    );
    expect(this.#tower.open, 'one run a tier').toBeLessThanOrEqual(3);
  }

  #hear({ events }: StepReport): void {
    for (const event of events) {
      const asked = this.#asked.find(({ id }) => id === event.id) as Asked;
      if (asked.finish !== undefined) throw new Error(`${event.id} goes on after its end`);
      if (event.kind === 'token') asked.tokens.push(event.token);
      else asked.finish = event;
    }
  }

  #check(): void {
    for (const { id, seen, choice, newTokens, faulty, tokens, finish } of this.#asked) {
      const alone = seenAnswer(seen, choice, newTokens);
      const reason = finish?.reason;
      if (reason === 'cancelled') met.cancelled += 1;
      if (faulty && reason !== 'cancelled') {
        met.failed += 1;
        expect(finish?.error?.message, id).toMatch(/^image \d of the prompt: /);
        continue;
      }
      const whole = reason !== 'cancelled';
      expect(tokens, id).toEqual(whole ? alone.tokens : alone.tokens.slice(0, tokens.length));
      if (whole) expect(reason === 'error', `${id} ${finish?.error?.message}`).toBe(alone.failed);
      met.accepted += finish?.draftTokens?.accepted ?? 0;
    }
    const { images, blocks, counters } = this.#engine.stats(this.#nowMs);
    expect(blocks.used).toBe(0);
    expect(images).toMatchObject({ waiting: 0, usedBytes: 0 });
    expect(this.#tower.open).toBe(0);
    met.hits += counters.prefixHitTokens;
    met.shared += images?.hits ?? 0;
    met.prepared += this.#backend.begun;
    met.preemptions += counters.preemptions;
  }
}

const play = (setting: Scenario) => new Run(setting).play();

describe('an engine that sees, under random traffic', () => {
  it('gives every request the answer that it has alone, with a fixed seed', async () => {
    const numRuns = cases(600, 0.1);
    await fc.assert(fc.asyncProperty(scenario, play), { numRuns, seed: 30 });
    for (const count of Object.values(met)) expect(count, JSON.stringify(met)).toBeGreaterThan(numRuns / 20);
  }, 300_000);

  it('gives every request the answer that it has alone, with a random seed', async () => {
    await fc.assert(fc.asyncProperty(scenario, play), { numRuns: cases(600, 0.1) });
  }, 300_000);
});
