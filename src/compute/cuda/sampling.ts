// Steps of the `cuda` backend that sample on the GPU. Rows that the GPU does not decide are sampled from their logits, on the
// processor.

import type { SampleResult, SampleRow, SampleRows } from '../../sampling/sample-row.ts';
import type { Batch } from '../backend.ts';
import type { Addon, ModelHandle } from '../cpu/binding.ts';
import { finishSampling } from '../device-sampling/finish-sampling.ts';
import { planSampling } from '../device-sampling/plan-sampling.ts';

/** Masks of 512 rows of 128 K tokens each, or as many penalties. */
const MOST_WORDS = 4 << 20;

interface SamplingModel {
  readonly addon: Addon;
  readonly handle: ModelHandle;
  readonly vocabSize: number;
  readonly sampleRows: SampleRows;
}

export class GpuSampler {
  readonly #model: SamplingModel;
  /** Otherwise the vocabulary is larger than the GPU samples from. */
  readonly isAvailable: boolean;
  #found = new Uint32Array(0);

  constructor(model: SamplingModel) {
    this.#model = model;
    this.isAvailable = model.addon.canSample(model.handle);
  }

  /** Runs a step, fills `states` with those that it wants, and samples its rows. */
  async step(batch: Batch, rows: readonly SampleRow[], states: Float32Array): Promise<SampleResult[]> {
    const { addon, handle, vocabSize } = this.#model;
    if (rows.length !== batch.logitRows.length) {
      throw new Error(`${rows.length} samples were given for ${batch.logitRows.length} rows of logits`);
    }
    const planned = planSampling(rows, vocabSize, MOST_WORDS);
    const { words, lists, byteLength } = planned;
    if (this.#found.byteLength < byteLength) this.#found = new Uint32Array(byteLength / 4);
    await (addon.stepAndSample(handle, batch, words, lists, this.#found, states) ?? this.#stepIsDone());
    const results = finishSampling(this.#found.buffer, rows, planned, vocabSize);
    const open = [...results.keys()].filter((index) => results[index] === undefined);
    const sampled = open.length === 0 ? [] : await this.#sampleOnProcessor(open, rows);
    return results.map((result, index) => result ?? (sampled[open.indexOf(index)] as SampleResult));
  }

  /**
   * Asks at every turn of the event loop, at least once, so that messages are read and sent. Another thread that waited for the GPU would keep a core
   * just as busy, and waking this one takes 50 to 100 µs, a thirtieth of a step.
   */
  #stepIsDone(): Promise<void> {
    const { addon, handle } = this.#model;
    return new Promise((resolve, reject) => {
      const ask = () => {
        try {
          if (addon.isStepDone(handle)) resolve();
          else setImmediate(ask);
        } catch (error) {
          reject(error);
        }
      };
      setImmediate(ask);
    });
  }

  async #sampleOnProcessor(open: readonly number[], rows: readonly SampleRow[]): Promise<SampleResult[]> {
    const { addon, handle, vocabSize, sampleRows } = this.#model;
    const logits = new Float32Array(open.length * vocabSize);
    await addon.readLogits(handle, Int32Array.from(open), logits);
    return sampleRows(
      logits,
      vocabSize,
      open.map((index) => rows[index] as SampleRow),
    );
  }
}
