import { describe, expect, it } from 'vitest';
import { CostModel } from './cost-model.ts';
import { attendedTokens, type StepLoad } from './step-plan.ts';

interface Machine {
  readonly fixed: number;
  readonly perToken: number;
  readonly perSequence: number;
  readonly perAttended: number;
}

const MACHINE: Machine = { fixed: 40, perToken: 0.9, perSequence: 0.4, perAttended: 0.0004 };

function msOf({ fixed, perToken, perSequence, perAttended }: Machine, load: StepLoad): number {
  return fixed + perToken * load.tokens + perSequence * load.sequences + perAttended * load.attended;
}

function randomNumbers(): () => number {
  let state = 7;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
    return (state >>> 8) / 2 ** 24;
  };
}

/** A step of decodes at some depth, now and then with a prefill chunk. */
function randomLoad(random: () => number, prefillShare = 0.5): StepLoad {
  const decodes = 1 + Math.floor(random() * 16);
  const depth = Math.floor(random() * 3000);
  const chunk = random() < prefillShare ? 32 * Math.ceil(random() * 8) : 0;
  const start = 32 * Math.floor(random() * 60);
  return {
    tokens: decodes + chunk,
    sequences: decodes + (chunk > 0 ? 1 : 0),
    attended: decodes * depth + attendedTokens(start, chunk),
  };
}

function train(
  model: CostModel,
  steps: number,
  ms: (load: StepLoad, step: number) => number,
  prefillShare = 0.5,
): void {
  const random = randomNumbers();
  for (let step = 0; step < steps; step++) {
    const load = randomLoad(random, prefillShare);
    model.observe(load, ms(load, step));
  }
}

const chunkOf256: StepLoad = { tokens: 260, sequences: 5, attended: 4 * 1000 + attendedTokens(1024, 256) };

describe('CostModel', () => {
  it('learns a machine from its steps', () => {
    const model = new CostModel();
    train(model, 200, (load) => msOf(MACHINE, load));
    expect(model.predictMs(chunkOf256) / msOf(MACHINE, chunkOf256)).toBeCloseTo(1, 1);
    const decodes = { tokens: 8, sequences: 8, attended: 8 * 500 };
    expect(model.predictMs(decodes) / msOf(MACHINE, decodes)).toBeCloseTo(1, 1);
  });

  it('gives the chunk that fits the target', () => {
    const model = new CostModel();
    train(model, 200, (load) => msOf(MACHINE, load));
    const decodes = { tokens: 4, sequences: 4, attended: 4000 };
    for (const start of [0, 2048]) {
      const tokens = model.chunkWithin(250, decodes, start);
      const load = { tokens: 4 + tokens, sequences: 5, attended: 4000 + attendedTokens(start, tokens) };
      expect(msOf(MACHINE, load)).toBeGreaterThan(225);
      expect(msOf(MACHINE, load)).toBeLessThan(275);
    }
    expect(model.chunkWithin(20, decodes, 0)).toBe(0);
  });

  it('stays close through noise and single pauses', () => {
    const model = new CostModel();
    const random = randomNumbers();
    train(
      model,
      300,
      (load, step) => msOf(MACHINE, load) * (0.9 + 0.2 * random()) * (step % 40 === 39 ? 20 : 1),
    );
    const ratio = model.predictMs(chunkOf256) / msOf(MACHINE, chunkOf256);
    expect(ratio).toBeGreaterThan(0.8);
    expect(ratio).toBeLessThan(1.3);
  });

  it('follows a machine that becomes slower or faster', () => {
    for (const factor of [4, 0.25]) {
      const model = new CostModel();
      train(model, 200, (load) => msOf(MACHINE, load));
      train(model, 300, (load) => factor * msOf(MACHINE, load));
      expect(model.predictMs(chunkOf256) / (factor * msOf(MACHINE, chunkOf256))).toBeCloseTo(1, 1);
    }
  });

  it('remembers what prefill costs through a long time of decodes alone', () => {
    const model = new CostModel();
    train(model, 200, (load) => msOf(MACHINE, load));
    train(model, 2000, (load) => msOf(MACHINE, load), 0);
    const ratio = model.predictMs(chunkOf256) / msOf(MACHINE, chunkOf256);
    expect(ratio).toBeGreaterThan(0.7);
    expect(ratio).toBeLessThan(1.4);
  });

  it('never predicts less for more', () => {
    const model = new CostModel();
    const random = randomNumbers();
    train(model, 100, () => 10 + 100 * random());
    const less = { tokens: 10, sequences: 2, attended: 100 };
    const more = { tokens: 200, sequences: 9, attended: 90_000 };
    expect(model.predictMs(more)).toBeGreaterThanOrEqual(model.predictMs(less));
  });

  it('ignores steps without tokens or without a duration', () => {
    const model = new CostModel();
    model.observe({ tokens: 0, sequences: 0, attended: 0 }, 5);
    model.observe({ tokens: 1, sequences: 1, attended: 1 }, 0);
    model.observe({ tokens: 1, sequences: 1, attended: 1 }, Number.NaN);
    expect(model.observations).toBe(0);
  });
});
