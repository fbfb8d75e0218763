// The forward pass as a list of operations, made once for a model: from token ids to the states and logits of the wanted
// rows.

import type { LayerSpec, LinearSpec, ModelSpec, RopeSpec } from '../../model/spec.ts';
import { readBias, readNorm } from '../../model/weight-reader.ts';
import { chooseTile, tilesFor } from './choose-tile.ts';
import { type Format, GROUP_INPUTS, PANEL_COLUMNS } from './format.ts';
import type { GpuInfo } from './gpu.ts';
import { addBranchKernel } from './kernels/add-branch.ts';
import { attendKernel } from './kernels/attend.ts';
import { attendManyKernel, manyQueries } from './kernels/attend-many.ts';
import { embedKernel } from './kernels/embed.ts';
import { INPUT_VALUES, type InputShape, makeInputKernel } from './kernels/make-input.ts';
import { mergeKernel } from './kernels/merge.ts';
import {
  canMultiply,
  type MultiplyKernel,
  type MultiplyShape,
  multiplyKernel,
  multiplyThreads,
  shapeWords,
} from './kernels/multiply.ts';
import { FINE_POSITIONS, rotateStoreKernel } from './kernels/rotate-store.ts';
import { canJoin, type GpuMatrix, loadMatrix, type MatrixLoader, type MatrixPart } from './matrix.ts';
import { Operation } from './operation.ts';
import type { StepCounts } from './plan-step.ts';
import type { Scratch } from './scratch.ts';

/** Matrices that read the same input and write side by side into one row. */
interface Linear {
  readonly matrices: readonly {
    readonly matrix: GpuMatrix;
    readonly offset: number;
    readonly bias: GPUBuffer[];
  }[];
}

type InputSource = Pick<InputShape, 'source' | 'size' | 'stride' | 'upOffset'>;

interface Output {
  readonly buffer: GPUBuffer;
  readonly stride: number;
  readonly adds: boolean;
}

export async function buildForward(
  spec: ModelSpec,
  loader: MatrixLoader,
  scratch: Scratch,
  kv: readonly GPUBuffer[],
  limits: GpuInfo['limits'],
): Promise<Operation[]> {
  return new ForwardBuilder(spec, loader, scratch, kv, limits).build();
}

class ForwardBuilder {
  readonly #spec: ModelSpec;
  readonly #loader: MatrixLoader;
  readonly #scratch: Scratch;
  readonly #kv: readonly GPUBuffer[];
  readonly #limits: GpuInfo['limits'];
  readonly #operations: Operation[] = [];
  readonly #texts = new Map<string, string>();

  constructor(
    spec: ModelSpec,
    loader: MatrixLoader,
    scratch: Scratch,
    kv: readonly GPUBuffer[],
    limits: GpuInfo['limits'],
  ) {
    this.#limits = limits;
    this.#spec = spec;
    this.#loader = loader;
    this.#scratch = scratch;
    this.#kv = kv;
  }

  async build(): Promise<Operation[]> {
    const spec = this.#spec;
    const embedding = await loadMatrix(this.#loader, 'embedding', [spec.embedding]);
    this.#embed(embedding);
    const turns: GPUBuffer[] = [];
    for (const rope of spec.ropes) turns.push(await this.#turns(rope));
    for (const [index, layer] of spec.layers.entries()) {
      await this.#attention(layer, this.#kv[index] as GPUBuffer, turns[layer.rope] as GPUBuffer);
      await this.#feedForward(layer);
    }
    await this.#head(embedding, await this.#norm(spec.finalNorm));
    return this.#operations;
  }

  #embed(matrix: GpuMatrix): void {
    const { hiddenSize, embeddingScale } = this.#spec;
    const { step, residual } = this.#scratch;
    for (const part of matrix.parts) {
      const text = embedKernel({
        format: matrix.format,
        size: hiddenSize,
        scale: embeddingScale,
        firstToken: part.firstOutput,
        tokens: part.outputs,
      });
      this.#add('embed', text, [...partBuffers(part), residual, step], ({ rows }) => [rows, 1]);
    }
  }

  async #attention(layer: LayerSpec, kv: GPUBuffer, turns: GPUBuffer): Promise<void> {
    const { headCount, kvHeadCount, headSize, normEpsilon, attentionScale, attentionSoftcap } = this.#spec;
    const { step, residual, heads, attended, attentionParts, kv: layout } = this.#scratch;
    const qkv = await this.#linear('attention', [layer.query, layer.key, layer.value]);
    this.#input(qkv, this.#normalized(), [residual, await this.#norm(layer.attentionNorm)]);
    const stride = (headCount + 2 * kvHeadCount) * headSize;
    await this.#multiply(qkv, { buffer: heads, stride, adds: false });

    const norms = [
      ...(layer.queryNorm === undefined ? [] : [await this.#norm(layer.queryNorm)]),
      ...(layer.keyNorm === undefined ? [] : [await this.#norm(layer.keyNorm)]),
    ];
    const rotate = rotateStoreKernel({
      headCount,
      kvHeadCount,
      headSize,
      half: (this.#spec.ropes[layer.rope] as RopeSpec).inverseFrequencies.length,
      queryNorm: layer.queryNorm !== undefined,
      keyNorm: layer.keyNorm !== undefined,
      epsilon: normEpsilon,
      layout,
    });
    this.#add('rotate and store', rotate, [step, heads, kv, turns, ...norms], ({ rows }) => [
      headCount + 2 * kvHeadCount,
      rows,
    ]);
    const shape = {
      headCount,
      kvHeadCount,
      layout,
      window: layer.window,
      scale: attentionScale,
      softcap: attentionSoftcap,
    };
    this.#add('attend', attendKernel(shape), [step, heads, kv, attended, attentionParts, kv], ({ items }) => [
      items,
      kvHeadCount,
    ]);
    const queries = manyQueries(layout, this.#limits);
    if (queries > 0) {
      const many = attendManyKernel({ ...shape, queries });
      this.#add('attend many', many, [step, heads, kv, attended, kv], ({ many: items }) => [
        items,
        kvHeadCount,
      ]);
    }
    this.#add('merge', mergeKernel(shape), [step, attentionParts, attended], ({ merges }) => [
      merges,
      kvHeadCount,
    ]);

    const output = await this.#linear('output', [layer.output]);
    const width = headCount * headSize;
    this.#input(output, { source: 'plain', size: width, stride: width, upOffset: 0 }, [attended]);
    await this.#joinResidual(output, layer.attentionPostNorm);
  }

  async #feedForward(layer: LayerSpec): Promise<void> {
    const { ffnSize } = this.#spec;
    const { residual, gateUp } = this.#scratch;
    const linear = await this.#linear('gate and up', [layer.gate, layer.up]);
    this.#input(linear, this.#normalized(), [residual, await this.#norm(layer.ffnNorm)]);
    await this.#multiply(linear, { buffer: gateUp, stride: 2 * ffnSize, adds: false });
    const down = await this.#linear('down', [layer.down]);
    this.#input(down, { source: 'gated', size: ffnSize, stride: 2 * ffnSize, upOffset: ffnSize }, [gateUp]);
    await this.#joinResidual(down, layer.ffnPostNorm);
  }

  async #joinResidual(linear: Linear, postNorm: string | undefined): Promise<void> {
    const { hiddenSize, normEpsilon } = this.#spec;
    const { step, residual, branch } = this.#scratch;
    if (postNorm === undefined) {
      await this.#multiply(linear, { buffer: residual, stride: hiddenSize, adds: true });
      return;
    }
    await this.#multiply(linear, { buffer: branch, stride: hiddenSize, adds: false });
    const text = addBranchKernel({ size: hiddenSize, epsilon: normEpsilon });
    this.#add('join residual', text, [step, branch, await this.#norm(postNorm), residual], ({ rows }) => [
      rows,
      1,
    ]);
  }

  async #head(embedding: GpuMatrix, finalNorm: GPUBuffer): Promise<void> {
    const { head, embedding: table, vocabSize, logitSoftcap } = this.#spec;
    const { residual, logits, states } = this.#scratch;
    this.#makeInput(this.#normalized(), [residual, finalNorm], 'states', { values: states });
    const tied = head.weight.tensor === table.tensor && head.weight.firstRow === table.firstRow;
    const linear = tied ? await this.#tied(embedding, head) : await this.#linear('head', [head]);
    this.#input(linear, this.#normalized(), [residual, finalNorm], 'wanted');
    await this.#multiply(linear, { buffer: logits, stride: vocabSize, adds: false }, 'wanted', logitSoftcap);
  }

  async #tied(matrix: GpuMatrix, { bias }: LinearSpec): Promise<Linear> {
    const buffers =
      bias === undefined ? [] : await this.#biases(matrix, readBias(this.#loader.weights, bias));
    return { matrices: [{ matrix, offset: 0, bias: buffers }] };
  }

  /** Joined into one matrix where types and sizes allow it: one kernel instead of several. */
  async #linear(label: string, specs: readonly LinearSpec[]): Promise<Linear> {
    const sets = canJoin(this.#loader.weights, specs) ? [specs] : specs.map((spec) => [spec]);
    const matrices: { matrix: GpuMatrix; offset: number; bias: GPUBuffer[] }[] = [];
    let offset = 0;
    for (const set of sets) {
      const matrix = await loadMatrix(
        this.#loader,
        label,
        set.map(({ weight }) => weight),
      );
      const bias = set.some(({ bias: slice }) => slice !== undefined)
        ? await this.#biases(matrix, joinedBias(set, this.#loader))
        : [];
      matrices.push({ matrix, offset, bias });
      offset += matrix.outputs;
    }
    return { matrices };
  }

  /** A buffer for each part. */
  async #biases(matrix: GpuMatrix, values: Float32Array<ArrayBuffer>): Promise<GPUBuffer[]> {
    const buffers: GPUBuffer[] = [];
    for (const { firstOutput, outputs } of matrix.parts) {
      buffers.push(
        await this.#loader.memory.filled('bias', values.slice(firstOutput, firstOutput + outputs)),
      );
    }
    return buffers;
  }

  /** Rows of the residual stream behind a norm. */
  #normalized(): InputSource {
    const { hiddenSize } = this.#spec;
    return { source: 'norm', size: hiddenSize, stride: hiddenSize, upOffset: 0 };
  }

  /** Makes rows the input of a linear, in the forms that it reads. */
  #input(
    linear: Linear,
    source: InputSource,
    sources: readonly GPUBuffer[],
    rows: InputShape['rows'] = 'all',
  ): void {
    const { codes, sides, values } = this.#scratch;
    const reads = (kind: Format['kind']) => linear.matrices.some(({ matrix }) => matrix.format.kind === kind);
    this.#makeInput(source, sources, rows, {
      ...(reads('coded') ? { codes: [codes, sides] } : {}),
      ...(reads('float') ? { values } : {}),
    });
  }

  #makeInput(
    source: InputSource,
    sources: readonly GPUBuffer[],
    rows: InputShape['rows'],
    { codes, values }: { readonly codes?: readonly GPUBuffer[]; readonly values?: GPUBuffer },
  ): void {
    const { activation, normEpsilon: epsilon } = this.#spec;
    if (codes !== undefined && source.size % GROUP_INPUTS !== 0) {
      throw new Error('rows of codes come in whole groups');
    }
    const makes = { codes: codes !== undefined, values: values !== undefined };
    const text = makeInputKernel({ ...source, activation, epsilon, rows, ...makes });
    const made = [...(codes ?? []), ...(values === undefined ? [] : [values])];
    const count = ({ rows: all, wanted, states }: StepCounts) => ({ all, wanted, states })[rows];
    this.#add(`input (${source.source})`, text, [this.#scratch.step, ...sources, ...made], (counts) => [
      Math.ceil(source.size / INPUT_VALUES),
      count(counts),
    ]);
  }

  async #multiply(
    linear: Linear,
    output: Output,
    input: 'rows' | 'wanted' = 'rows',
    softcap?: number,
  ): Promise<void> {
    for (const { matrix, offset, bias } of linear.matrices) {
      for (const [index, part] of matrix.parts.entries()) {
        const shape = {
          inputs: matrix.inputs,
          outputs: part.outputs,
          outputStride: output.stride,
          outputOffset: offset + part.firstOutput,
          input,
          adds: output.adds,
          hasBias: bias.length > 0,
          softcap,
        };
        await this.#multiplyPart(matrix.format, part, shape, output.buffer, bias[index]);
      }
    }
  }

  async #multiplyPart(
    format: Format,
    part: MatrixPart,
    shape: MultiplyShape,
    output: GPUBuffer,
    bias: GPUBuffer | undefined,
  ): Promise<void> {
    const { step, codes, sides, values, nothing } = this.#scratch;
    const panels = Math.ceil(part.outputs / PANEL_COLUMNS);
    const count = (counts: StepCounts) => (shape.input === 'rows' ? counts.rows : counts.wanted);
    const { workgroupBytes, workgroupThreads } = this.#limits;
    const threads = multiplyThreads(workgroupThreads);
    const tiles = tilesFor(format, panels).filter((tile) =>
      canMultiply({ ...tile, threads }, workgroupBytes),
    );
    const variants = tiles.map((tile) => ({
      text: this.#multiplyText({ format, ...tile, threads }),
      grid: (counts: StepCounts) =>
        [Math.ceil(panels / tile.panels), Math.ceil(count(counts) / tile.rows)] as const,
    }));
    const inputs = format.kind === 'coded' ? [codes, sides] : [values];
    const constants = await this.#loader.memory.constants('shape', shapeWords(format, shape));
    const buffers = [...partBuffers(part), ...inputs, output, step, bias ?? nothing, constants];
    const choose = (counts: StepCounts) => chooseTile(tiles, count(counts), panels);
    this.#operations.push(
      new Operation(`multiply ${shape.inputs} x ${shape.outputs}`, variants, buffers, choose),
    );
  }

  /** Each text once: they are long, and many matrices share them. */
  #multiplyText(kernel: MultiplyKernel): string {
    const key = JSON.stringify(kernel);
    const text = this.#texts.get(key) ?? multiplyKernel(kernel);
    this.#texts.set(key, text);
    return text;
  }

  async #norm(tensor: string): Promise<GPUBuffer> {
    return this.#loader.memory.filled('norm', readNorm(this.#loader.weights, tensor, this.#spec.normOffset));
  }

  /** Cosine and sine of each pair: for the first positions one by one, then for multiples of their number. */
  async #turns({ inverseFrequencies, magnitude }: RopeSpec): Promise<GPUBuffer> {
    const coarse = Math.ceil(this.#spec.contextLength / FINE_POSITIONS);
    const table = new Float32Array((FINE_POSITIONS + coarse) * inverseFrequencies.length * 2);
    let at = 0;
    for (let entry = 0; entry < FINE_POSITIONS + coarse; entry++) {
      const isFine = entry < FINE_POSITIONS;
      const position = isFine ? entry : (entry - FINE_POSITIONS) * FINE_POSITIONS;
      for (const frequency of inverseFrequencies) {
        table[at++] = (isFine ? magnitude : 1) * Math.cos(position * frequency);
        table[at++] = (isFine ? magnitude : 1) * Math.sin(position * frequency);
      }
    }
    return this.#loader.memory.filled('turns', table);
  }

  #add(
    label: string,
    text: string,
    buffers: readonly GPUBuffer[],
    grid: (counts: StepCounts) => readonly [number, number],
  ): void {
    this.#operations.push(new Operation(label, [{ text, grid }], buffers));
  }
}

const partBuffers = ({ codes, scales }: MatrixPart): GPUBuffer[] =>
  scales === undefined ? [codes] : [codes, scales];

function joinedBias(specs: readonly LinearSpec[], { weights }: MatrixLoader): Float32Array<ArrayBuffer> {
  const outputs = specs.reduce((sum, { weight }) => sum + weight.rows, 0);
  const joined = new Float32Array(outputs);
  let at = 0;
  for (const { weight, bias } of specs) {
    if (bias !== undefined) joined.set(readBias(weights, bias), at);
    at += weight.rows;
  }
  return joined;
}
