// Rotary embedding tables as data: every scaling scheme comes down to one inverse frequency per pair
// and one magnitude.

/** Rotary embedding over the first `2 * inverseFrequencies.length` values of a head, in pairs (i, i + half). */
export interface RopeSpec {
  readonly inverseFrequencies: readonly number[];
  /** Factor on cosine and sine (yarn, longrope); 1 elsewhere. */
  readonly magnitude: number;
  /** By which of a token's three positions each pair turns: time, row or column (0, 1, 2); absent: all are the same. */
  readonly axes?: readonly number[];
}

interface RopeGeometry {
  readonly base: number;
  /** Values of a head that are rotated: the head's size, or less where only a part is. */
  readonly dimensions: number;
}

export type RopeScaling =
  | { readonly type: 'default' }
  | { readonly type: 'linear'; readonly factor: number }
  | {
      readonly type: 'llama3';
      readonly factor: number;
      readonly lowFrequencyFactor: number;
      readonly highFrequencyFactor: number;
      readonly originalContext: number;
    }
  | {
      readonly type: 'yarn';
      readonly factor: number;
      readonly originalContext: number;
      readonly betaFast: number;
      readonly betaSlow: number;
      /** Whether the ends of the ramp are rounded outwards to whole pairs. */
      readonly truncate: boolean;
      readonly magnitude: number;
    }
  /** Only the first pairs of a whole head turn. */
  | { readonly type: 'proportional'; readonly factor: number; readonly pairs: number }
  /** Each pair slowed by its own factor: longrope, and the factors stored in GGUF files. */
  | { readonly type: 'per-pair'; readonly factors: readonly number[]; readonly magnitude: number };

export function ropeTable(geometry: RopeGeometry, scaling: RopeScaling): RopeSpec {
  const plain = plainFrequencies(geometry);
  switch (scaling.type) {
    case 'default':
      return { inverseFrequencies: plain, magnitude: 1 };
    case 'linear':
      return { inverseFrequencies: plain.map((frequency) => frequency / scaling.factor), magnitude: 1 };
    case 'llama3':
      return { inverseFrequencies: plain.map((frequency) => llama3(frequency, scaling)), magnitude: 1 };
    case 'yarn':
      return { inverseFrequencies: yarn(plain, geometry, scaling), magnitude: scaling.magnitude };
    case 'proportional':
      return {
        inverseFrequencies: plain.map((frequency, pair) =>
          pair < scaling.pairs ? frequency / scaling.factor : 0,
        ),
        magnitude: 1,
      };
    case 'per-pair':
      return {
        inverseFrequencies: plain.map((frequency, pair) => frequency / (scaling.factors[pair] ?? 1)),
        magnitude: scaling.magnitude,
      };
  }
}

function plainFrequencies({ base, dimensions }: RopeGeometry): number[] {
  return Array.from({ length: dimensions / 2 }, (_, pair) => base ** ((-2 * pair) / dimensions));
}

type Llama3 = Extract<RopeScaling, { type: 'llama3' }>;

/** Long wavelengths are stretched by the factor, short ones kept, those between blended. */
function llama3(frequency: number, scaling: Llama3): number {
  const turns = (scaling.originalContext * frequency) / (2 * Math.PI);
  if (turns < scaling.lowFrequencyFactor) return frequency / scaling.factor;
  if (turns > scaling.highFrequencyFactor) return frequency;
  const kept =
    (turns - scaling.lowFrequencyFactor) / (scaling.highFrequencyFactor - scaling.lowFrequencyFactor);
  return (1 - kept) * (frequency / scaling.factor) + kept * frequency;
}

type Yarn = Extract<RopeScaling, { type: 'yarn' }>;

/** Pairs that turn often are kept, those that turn seldom are stretched, with a linear ramp between. */
function yarn(plain: readonly number[], { base, dimensions }: RopeGeometry, scaling: Yarn): number[] {
  const pairTurning = (turns: number): number =>
    (dimensions * Math.log(scaling.originalContext / (turns * 2 * Math.PI))) / (2 * Math.log(base));
  const round = scaling.truncate ? { down: Math.floor, up: Math.ceil } : { down: identity, up: identity };
  const rampStart = Math.max(round.down(pairTurning(scaling.betaFast)), 0);
  const rampEnd = Math.min(round.up(pairTurning(scaling.betaSlow)), dimensions - 1);
  const rampLength = rampEnd === rampStart ? 0.001 : rampEnd - rampStart;
  return plain.map((frequency, pair) => {
    const stretched = Math.min(Math.max((pair - rampStart) / rampLength, 0), 1);
    return stretched * (frequency / scaling.factor) + (1 - stretched) * frequency;
  });
}

const identity = (value: number): number => value;

/** The magnitude yarn's authors suggest for a stretch; `weight` is a model's `mscale`. */
export function yarnMagnitude(factor: number, weight = 1): number {
  return factor <= 1 ? 1 : 0.1 * weight * Math.log(factor) + 1;
}

/** The magnitude of longrope for a context `factor` times the original one. */
export function longropeMagnitude(factor: number, originalContext: number): number {
  return factor <= 1 ? 1 : Math.sqrt(1 + Math.log(factor) / Math.log(originalContext));
}
