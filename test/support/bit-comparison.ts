// Two backends as one: every step and every image runs on both, and what differs between them, be it in the last bit, is recorded.

import type { Backend, CreateBackend, ImageFeatures, ImageRun } from '../../src/compute/backend.ts';

export interface Difference {
  /** Its number among all that were compared. */
  readonly step: number;
  readonly of: 'logits' | 'states' | 'features';
  readonly values: number;
  readonly different: number;
  readonly largest: number;
}

export class BitComparison {
  readonly #create: CreateBackend;
  readonly #createOracle: CreateBackend;
  #models = 0;
  #steps = 0;
  #values = 0;
  #differences: Difference[] = [];

  constructor(create: CreateBackend, createOracle: CreateBackend) {
    this.#create = create;
    this.#createOracle = createOracle;
  }

  get compared(): { readonly models: number; readonly steps: number; readonly values: number } {
    return { models: this.#models, steps: this.#steps, values: this.#values };
  }

  /** Those found since it was last asked. */
  takeDifferences(): readonly Difference[] {
    return this.#differences.splice(0);
  }

  /** Gives the results of the first backend. */
  readonly create: CreateBackend = async (spec, weights, options) => {
    const oracle = await this.#createOracle(spec, weights, options);
    const backend = await this.#create(spec, weights, options);
    this.#models++;
    return {
      name: backend.name,
      blockCount: backend.blockCount,
      stateSlots: backend.stateSlots,
      sampleRows: backend.sampleRows,
      ...(backend.blockMemory === undefined ? {} : { blockMemory: backend.blockMemory }),
      step: async (batch) => {
        const known = await oracle.step(batch);
        const found = await backend.step(batch);
        this.#steps++;
        this.#compare('logits', known.logits, found.logits);
        this.#compare('states', known.states, found.states);
        return found;
      },
      ...(backend.beginImage === undefined
        ? {}
        : {
            beginImage: (image) =>
              this.#both(oracle.beginImage?.(image) as ImageRun, backend.beginImage?.(image) as ImageRun),
          }),
      releaseBlocks: (blocks) => {
        oracle.releaseBlocks(blocks);
        backend.releaseBlocks(blocks);
      },
      close: () => {
        oracle.close();
        backend.close();
      },
    } satisfies Backend;
  };

  #both(oracle: ImageRun, run: ImageRun): ImageRun {
    return {
      get left() {
        return run.left;
      },
      get features() {
        return run.features;
      },
      advance: async (work) => {
        const isNew = run.features === undefined;
        await oracle.advance(work);
        await run.advance(work);
        if (!isNew || run.features === undefined) return;
        const known = outputsOf(oracle.features);
        for (const [at, values] of outputsOf(run.features).entries()) {
          this.#compare('features', known[at] ?? new Float32Array(), values);
        }
      },
      close: () => {
        oracle.close();
        run.close();
      },
    };
  }

  #compare(of: Difference['of'], known: Float32Array, found: Float32Array): void {
    const { different, largest } = differenceOf(known, found);
    this.#values += known.length;
    if (different === 0) return;
    this.#differences.push({ step: this.#steps, of, values: known.length, different, largest });
  }
}

function outputsOf(features: ImageFeatures | undefined): readonly Float32Array[] {
  return features === undefined ? [] : [features.embeddings, ...features.deepstack];
}

/** How many values have other bits, and by how much they differ at most. */
export function differenceOf(
  known: Float32Array,
  found: Float32Array,
): { readonly different: number; readonly largest: number } {
  let different = Math.abs(known.length - found.length);
  let largest = different === 0 ? 0 : Number.POSITIVE_INFINITY;
  for (const [at, value] of known.entries()) {
    const other = found[at];
    if (other === undefined || Object.is(value, other)) continue;
    different++;
    const distance = Math.abs(value - other);
    largest = Number.isNaN(distance) ? Number.POSITIVE_INFINITY : Math.max(largest, distance);
  }
  return { different, largest };
}
