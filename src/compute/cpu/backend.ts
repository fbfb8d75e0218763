// The `cpu` backend: the Backend contract over the C++ addon.

import type { ModelSpec } from '../../model/spec.ts';
import { headFormat } from '../../model/spec-walk.ts';
import type { ImageInput, ImageView, VisionSpec } from '../../model/vision/vision-spec.ts';
import { machineLimits } from '../../runtime/limits.ts';
import { type NumaNode, numaNodes, threadNodes } from '../../runtime/numa-nodes.ts';
import { checkMasks, type SampleRow, type SampleRows } from '../../sampling/sample-row.ts';
import type { WeightSource } from '../../weights/weight-source.ts';
import {
  type Backend,
  type BackendOptions,
  type Batch,
  type DraftedToken,
  type ImageRun,
  type KvContent,
  type KvType,
  type StepResult,
  stateSlotsOf,
} from '../backend.ts';
import { type BatchLimits, BlockUses, batchLimits, checkBatch, checkPredictBatch } from '../batch.ts';
import { HeldBlocks } from '../held-blocks.ts';
import { requireKvType } from '../kv-type.ts';
import type { Join } from '../tower/join-views.ts';
import { loadJoin } from '../tower/load-join.ts';
import type { TowerProgram } from '../tower/program.ts';
import { ProgramRun, type ViewRun } from '../tower/program-run.ts';
import type { Addon, ModelHandle, NativeTimeline } from './binding.ts';
import { nativeContent } from './native-content.ts';
import { createNativeSampler, packDraftRows } from './sample-rows.ts';
import { uploadModel } from './upload.ts';

export interface CpuOptions extends BackendOptions {
  readonly threads?: number;
  readonly kvType?: KvType;
  /** Those of the machine where not given: threads stay on theirs, and the weights that they read lie there. */
  readonly nodes?: readonly NumaNode[];
  /** Kernels to use rather than the fastest; all give the same bits. */
  readonly isa?: string;
}

export interface CpuBackend extends Backend {
  /** Records what threads do until `takeTimeline`, with room for that many loops in all and pieces of each thread. Between steps. */
  startTimeline(loops: number, pieces: number): void;
  takeTimeline(): NativeTimeline;
  useThreads(count: number): void;
}

export async function createCpuBackend(
  addon: Addon,
  spec: ModelSpec,
  weights: WeightSource,
  options: CpuOptions,
): Promise<CpuBackend> {
  const { blockCount, kvType = 'f16' } = options;
  requireKvType(kvType, 'cpu', spec);
  const threads = options.threads ?? machineLimits().cores;
  const stateSlots = stateSlotsOf(spec, options);
  const nodes = options.nodes ?? numaNodes();
  const ofThread = threadNodes(threads, nodes).map(({ number }) => number);
  const handle = addon.create(threads, options.isa ?? '', Int32Array.from(ofThread), coreNodes(nodes));
  try {
    const model = await uploadModel(addon, handle, spec, weights, options.onProgress ?? (() => {}));
    addon.assemble(handle, model, kvType, blockCount, stateSlots ?? 0);
  } catch (error) {
    addon.destroy(handle);
    throw error;
  }
  const join = spec.vision && loadJoin(spec.vision.tower.join, weights);
  const sampleRows = createNativeSampler(addon, handle);
  return new NativeBackend(addon, handle, spec, { blockCount, stateSlots, kvType, join, sampleRows });
}

/** The node of each core, or -1. */
function coreNodes(nodes: readonly NumaNode[]): Int32Array {
  const ofCore = new Int32Array(1 + Math.max(-1, ...nodes.flatMap(({ cores }) => cores))).fill(-1);
  for (const { number, cores } of nodes) for (const core of cores) ofCore[core] = number;
  return ofCore;
}

interface Parts extends Pick<Backend, 'blockCount' | 'stateSlots' | 'sampleRows'> {
  readonly kvType: KvType;
  readonly join: Join | undefined;
}

class NativeBackend implements CpuBackend {
  readonly name = 'cpu';
  readonly blockCount: number;
  readonly stateSlots: number | undefined;
  readonly sampleRows: SampleRows;
  readonly content: KvContent;
  readonly beginImage?: (image: ImageInput) => ImageRun;
  readonly predict?: NonNullable<Backend['predict']>;
  readonly draft?: NonNullable<Backend['draft']>;
  readonly #addon: Addon;
  readonly #handle: ModelHandle;
  readonly #spec: ModelSpec;
  readonly #limits: BatchLimits;
  readonly #uses: BlockUses;
  readonly #held: HeldBlocks;
  #logits = new Float32Array(0);
  #states = new Float32Array(0);
  #running: Promise<void> | undefined;
  #closed = false;
  #newThreads: number | undefined;

  constructor(
    addon: Addon,
    handle: ModelHandle,
    spec: ModelSpec,
    { blockCount, stateSlots, kvType, sampleRows, join }: Parts,
  ) {
    this.stateSlots = stateSlots;
    this.sampleRows = sampleRows;
    this.#addon = addon;
    this.#handle = handle;
    this.#spec = spec;
    this.blockCount = blockCount;
    this.#limits = batchLimits(spec, { blockCount, stateSlots });
    this.#uses = new BlockUses(blockCount);
    this.#held = new HeldBlocks(blockCount);
    const checkIdle = () => this.#requireIdle('copy content between steps');
    const { vision, mtp } = spec;
    this.content = nativeContent({
      addon,
      handle,
      kvType,
      stateSlots,
      held: this.#held,
      checkIdle,
      head: headFormat(spec),
    });
    if (mtp !== undefined) {
      this.predict = (batch) => this.#predict(batch);
      this.draft = (batch, rows, leastLogprob) => this.#draft(batch, rows, leastLogprob);
    }
    if (vision !== undefined && join !== undefined) {
      this.beginImage = (image) => this.#beginImage(vision, join, image);
    }
  }

  async step(batch: Batch): Promise<StepResult> {
    this.#requireIdle('await it before the next');
    const { vocabSize, hiddenSize } = this.#spec;
    checkBatch(batch, this.#limits, this.#uses);
    this.#held.take(batch);
    this.#logits = withRoom(this.#logits, batch.logitRows.length * vocabSize);
    this.#states = withRoom(this.#states, batch.stateRows.length * hiddenSize);
    await this.#compute(() => this.#addon.step(this.#handle, batch, this.#logits, this.#states));
    return {
      logits: this.#logits.subarray(0, batch.logitRows.length * vocabSize),
      states: this.#states.subarray(0, batch.stateRows.length * hiddenSize),
    };
  }

  async #predict(batch: Batch): Promise<Float32Array> {
    this.#requireIdle('predict between steps');
    checkPredictBatch(batch, this.#limits, this.#uses);
    this.#held.take(batch);
    const size = batch.tokens.length * this.#spec.vocabSize;
    this.#logits = withRoom(this.#logits, size);
    await this.#compute(() => this.#addon.predict(this.#handle, batch, this.#logits));
    return this.#logits.subarray(0, size);
  }

  async #draft(
    batch: Batch,
    rows: readonly (readonly SampleRow[])[],
    leastLogprob: number,
  ): Promise<readonly (readonly DraftedToken[])[]> {
    this.#requireIdle('draft between steps');
    const rounds = rows.map(({ length }) => length);
    checkPredictBatch(batch, this.#limits, this.#uses, rounds);
    const all = rows.flat();
    checkMasks(this.#spec.vocabSize, all);
    this.#held.take(batch);
    const tokens = new Int32Array(all.length).fill(-1);
    const logprobs = new Float32Array(all.length);
    const job = packDraftRows(all);
    await this.#compute(() =>
      this.#addon.draft(this.#handle, batch, Int32Array.from(rounds), job, leastLogprob, tokens, logprobs),
    );
    let from = 0;
    return rounds.map((count) => {
      const drafted: DraftedToken[] = [];
      for (let at = from; at < from + count && (tokens[at] as number) >= 0; at++) {
        drafted.push({ token: tokens[at] as number, logprob: logprobs[at] as number });
      }
      from += count;
      return drafted;
    });
  }

  releaseBlocks(blocks: Int32Array): void {
    this.#requireIdle('release blocks between steps');
    this.#held.release(blocks);
    this.#addon.releaseBlocks(this.#handle, blocks);
  }

  useThreads(count: number): void {
    this.#newThreads = count;
  }

  startTimeline(loops: number, pieces: number): void {
    this.#requireIdle('start a timeline between steps');
    this.#addon.startTimeline(this.#handle, loops, pieces);
  }

  takeTimeline(): NativeTimeline {
    this.#requireIdle('take a timeline between steps');
    return this.#addon.takeTimeline(this.#handle);
  }

  /** Frees the model, at once or as soon as the running step ends. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    if (this.#running === undefined) this.#addon.destroy(this.#handle);
  }

  #beginImage({ tower, preprocessing }: VisionSpec, join: Join, image: ImageInput): ImageRun {
    return new ProgramRun(image, { steps: tower.steps, join }, preprocessing, (program, view) =>
      this.#beginView(program, view),
    );
  }

  #beginView(program: TowerProgram, { rgb }: ImageView): ViewRun {
    const view = this.#addon.beginView(this.#handle, program, rgb);
    return {
      run: (operation, firstRow, count) => {
        this.#requireIdle('compute images between steps');
        return this.#compute(() => this.#addon.runView(this.#handle, view, operation, firstRow, count));
      },
      read: (output, into) => {
        this.#requireIdle('read images between steps');
        return this.#compute(() => this.#addon.readView(this.#handle, view, output, into));
      },
      close: () => this.#addon.endView(view),
    };
  }

  #requireIdle(remedy: string): void {
    if (this.#running !== undefined) throw new Error(`a step is still running; ${remedy}`);
  }

  async #compute(start: () => Promise<void>): Promise<void> {
    this.#applyThreads();
    this.#running = start();
    try {
      await this.#running;
    } finally {
      this.#running = undefined;
      if (this.#closed) this.#addon.destroy(this.#handle);
    }
  }

  #applyThreads(): void {
    if (this.#newThreads !== undefined) this.#addon.useThreads(this.#handle, this.#newThreads);
    this.#newThreads = undefined;
  }
}

function withRoom(values: Float32Array<ArrayBuffer>, length: number): Float32Array<ArrayBuffer> {
  return values.length < length ? new Float32Array(length) : values;
}
