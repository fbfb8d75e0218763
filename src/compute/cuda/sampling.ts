// Steps of the `cuda` backend that sample on the GPU. Rows that the GPU does not decide are sampled from their logits, on the
// processor.

import type { SampleResult, SampleRow, SampleRows } from '../../sampling/sample-row.ts';
import type { Batch } from '../backend.ts';
import type { Addon, ModelHandle } from '../cpu/binding.ts';
import { finishSampling } from '../device-sampling/finish-sampling.ts';
import { type PlannedSampling, planSampling } from '../device-sampling/plan-sampling.ts';

/** Masks of 512 rows of 128 K tokens each, or as many penalties. */
const MOST_WORDS = 4 << 20;

interface SamplingModel {
  readonly addon: Addon;
  readonly handle: ModelHandle;
  readonly vocabSize: number;
  readonly sampleRows: SampleRows;
}

/** A step that was prepared while another was computed. */
interface PreparedStep {
  readonly rows: readonly SampleRow[];
  readonly planned: PlannedSampling;
}

export class GpuSampler {
  readonly #model: SamplingModel;
  /** Otherwise the vocabulary is larger than the GPU samples from. */
  readonly isAvailable: boolean;
  #found = new Uint32Array(0);
  /** A step is computed that this thread has started. */
  #computes = false;

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
    const { words, lists } = planned;
    const found = this.#roomFor(planned);
    await (addon.stepAndSample(handle, batch, words, lists, found, states) ?? this.#stepIsDone());
    return this.#results(rows, planned);
  }

  /** While a step is computed: all of the next one that does not depend on its tokens. Undefined where it cannot be prepared. */
  prepare(batch: Batch, rows: readonly SampleRow[]): PreparedStep | undefined {
    if (!this.#computes) return undefined;
    const { addon, handle, vocabSize } = this.#model;
    const planned = planSampling(rows, vocabSize, MOST_WORDS);
    return addon.prepareStep(handle, batch, planned.words, planned.lists) ? { rows, planned } : undefined;
  }

  async startPrepared({ rows, planned }: PreparedStep, tokens: Int32Array): Promise<SampleResult[]> {
    this.#model.addon.startPrepared(this.#model.handle, tokens, this.#roomFor(planned));
    await this.#stepIsDone();
    return this.#results(rows, planned);
  }

  #roomFor({ byteLength }: PlannedSampling): Uint32Array {
    if (this.#found.byteLength < byteLength) this.#found = new Uint32Array(byteLength / 4);
    return this.#found;
  }

  async #results(rows: readonly SampleRow[], planned: PlannedSampling): Promise<SampleResult[]> {
    const { vocabSize } = this.#model;
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
    this.#computes = true;
    const done = new Promise<void>((resolve, reject) => {
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
    return done.finally(() => {
      this.#computes = false;
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
