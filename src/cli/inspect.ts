import { basename } from 'node:path';
import type { Command } from 'commander';
import { BLOCK_TOKENS } from '../compute/backend.ts';
import { kvTypeRefusal } from '../compute/kv-type.ts';
import { recurrentStateBytes, sizesOf, weightBytes } from '../compute/memory.ts';
import { denseShapes } from '../model/dense-layers.ts';
import type { ModelSpec } from '../model/spec.ts';
import {
  activeParameters,
  adaptableLinears,
  attendingOf,
  bodiesOf,
  feedForwardSizes,
  isEncoder,
  isHeadTied,
} from '../model/spec-walk.ts';
import { type LocalModel, openLocalModel } from '../pool/local-model.ts';
import { formatBytes } from '../text/byte-size.ts';
import { columnsOf, rowsOf } from '../weights/weight-source.ts';
import { MODEL_MEANING, parseModel } from './models-on-disk.ts';
import { formatCount, formatTable } from './terminal.ts';

export function addInspect(program: Command): void {
  program
    .command('inspect')
    .description('show what a model is and how much memory it needs')
    .argument('<path>', MODEL_MEANING, parseModel)
    .option('--adapter <path...>', 'LoRA adapters to look at with it')
    .option('--json', 'print JSON')
    .action((path: string, options: { adapter?: string[]; json?: true }) => {
      const adapters = (options.adapter ?? []).map((place) => ({ name: basename(place), path: place }));
      const model = openLocalModel(path, { adapters, images: 'if-possible' });
      const report = describe(model);
      model.close();
      process.stdout.write(options.json ? `${JSON.stringify(report)}\n` : `${layOut(report)}\n`);
    });
}

function describe({ files, spec, weights, tokenizer, template, pooling, visionProblem }: LocalModel) {
  const tensors = [...files.weights.tensors.values()];
  const { matrixBytes, kvBlockBytes } = sizesOf();
  const parametersByType: Record<string, number> = {};
  for (const tensor of tensors) {
    const values = rowsOf(tensor) * columnsOf(tensor);
    parametersByType[tensor.type] = (parametersByType[tensor.type] ?? 0) + values;
  }
  const attentions = attendingOf(spec);
  const [attention] = attentions;
  const cache = spec.caches[attention?.cache ?? 0];
  const windows = attentions.map(({ window }) => window).filter((window) => window !== undefined);
  const mixture = bodiesOf(spec).find((body) => body.kind === 'moe');
  const sizes = feedForwardSizes(spec);
  const { vision: _, ...text } = spec;
  const textBytes = weightBytes(text, weights, matrixBytes);
  return {
    path: files.path,
    format: files.format,
    architecture: spec.architecture,
    encoder: isEncoder(spec),
    pooling: pooling.possible ? pooling.pooling : null,
    mapsAfterPooling: pooling.possible ? denseShapes(files).length : 0,
    parameters: Object.values(parametersByType).reduce((sum, count) => sum + count, 0),
    activeParameters: Math.round(activeParameters(text)),
    parametersByType,
    layers: spec.layers.length,
    hiddenSize: spec.hiddenSize,
    heads: attention?.headCount ?? 0,
    kvHeads: cache?.headCount ?? 0,
    headSize: cache?.headSize ?? 0,
    ffnSize: sizes.dense ?? null,
    experts: mixture?.experts.length ?? 0,
    expertsUsed: mixture?.router.used ?? 0,
    expertSize: sizes.expert ?? null,
    expertLayers: bodiesOf(spec).filter((body) => body.kind === 'moe').length,
    recurrentLayers: spec.recurrentStates.length,
    recurrentStateBytes: recurrentStateBytes(spec),
    vocabSize: spec.vocabSize,
    contextLength: spec.contextLength,
    slidingWindow: windows[0] ?? null,
    slidingLayers: windows.length,
    tiedHead: isHeadTied(spec) && spec.headless !== true,
    tokenizer: tokenizer.kind,
    bosId: tokenizer.bosId ?? null,
    eosIds: [...tokenizer.eosIds],
    chatTemplate: template !== undefined,
    weightBytes: textBytes,
    images: spec.vision !== undefined,
    imageProblem: visionProblem ?? null,
    towerBytes: weightBytes(spec, weights, matrixBytes) - textBytes,
    adapters: describeAdapters(spec),
    kvBytesPer1000Tokens: Math.round((kvBlockBytes(spec, 'f16') / BLOCK_TOKENS) * 1000),
    kvBytesPer1000TokensQ8: Math.round((kvBlockBytes(spec, 'q8') / BLOCK_TOKENS) * 1000),
    kvBytesPer1000TokensQ4:
      kvTypeRefusal('q4', undefined, spec) === undefined
        ? Math.round((kvBlockBytes(spec, 'q4') / BLOCK_TOKENS) * 1000)
        : null,
  };
}

function describeAdapters(spec: ModelSpec) {
  const linears = adaptableLinears(spec);
  const { embeddingAdditions = [], vocabSize, hiddenSize } = spec;
  const table = { weight: { rows: hiddenSize }, columns: vocabSize, additions: embeddingAdditions };
  return (spec.adapters ?? []).map((name, adapter) => {
    const own = [table, ...linears].flatMap(({ columns, weight, additions = [] }) =>
      additions
        .filter((addition) => addition.adapter === adapter)
        .map(({ rank, scale }) => ({ rank, scale, parameters: rank * (columns + weight.rows) })),
    );
    const ranks = [...new Set(own.map(({ rank }) => rank))];
    const scales = [...new Set(own.map(({ scale }) => scale))];
    return {
      name,
      matrices: own.length,
      ranks,
      scales,
      parameters: own.reduce((sum, one) => sum + one.parameters, 0),
    };
  });
}

function layOut(report: ReturnType<typeof describe>): string {
  const types = Object.entries(report.parametersByType)
    .sort(([, a], [, b]) => b - a)
    .map(([type, count]) => `${type} ${((100 * count) / report.parameters).toFixed(1)}%`);
  const window =
    report.slidingWindow === null
      ? 'none'
      : `${formatCount(report.slidingWindow)} tokens in ${report.slidingLayers} layers`;
  const dense = report.ffnSize === null ? '' : `, feed-forward ${report.ffnSize}`;
  const parameters =
    report.experts === 0
      ? formatCount(report.parameters)
      : `${formatCount(report.parameters)}, ${formatCount(report.activeParameters)} of them for each token`;
  const { experts: count, expertsUsed, expertSize, expertLayers } = report;
  const experts =
    count === 0
      ? []
      : [
          [
            'experts',
            `${expertsUsed} of ${count}, feed-forward ${expertSize}, in ${expertLayers} layers`,
          ] as const,
        ];
  const maps = report.mapsAfterPooling === 0 ? '' : `, then ${report.mapsAfterPooling} linear maps`;
  const pooled = report.pooling === null ? 'vectors are not supported' : `pooled by ${report.pooling}${maps}`;
  const embedding = report.encoder
    ? [['kind', `encoder: texts are embedded whole, not continued; ${pooled}`] as const]
    : [];
  const { recurrentLayers, recurrentStateBytes } = report;
  const recurrent =
    recurrentLayers === 0
      ? []
      : [
          [
            'recurrent state, a sequence',
            `${formatBytes(recurrentStateBytes)} of any length, in ${recurrentLayers} layers without KV`,
          ] as const,
        ];
  const { kvBytesPer1000TokensQ4 } = report;
  const inFourBits =
    kvBytesPer1000TokensQ4 === null ? '' : `, ${formatBytes(kvBytesPer1000TokensQ4)} with 4-bit`;
  return formatTable([
    ['file', `${report.path} (${report.format})`],
    ['architecture', report.architecture],
    ...embedding,
    ['parameters', parameters],
    ['quantization', types.join(', ')],
    ['layers', `${report.layers}, hidden ${report.hiddenSize}${dense}`],
    ...experts,
    ['attention', `${report.heads} heads of ${report.headSize}, ${report.kvHeads} for KV`],
    ['sliding window', window],
    ['context', `${formatCount(report.contextLength)} tokens`],
    [
      'vocabulary',
      `${formatCount(report.vocabSize)}${report.tiedHead ? ', head tied to the embedding' : ''}`,
    ],
    ['tokenizer', report.tokenizer],
    ['BOS, EOS', `${report.bosId ?? 'none'}, ${report.eosIds.join(' ') || 'none'}`],
    ['chat template', report.chatTemplate ? 'yes' : 'no'],
    ['images', report.images ? 'yes' : `no${report.imageProblem === null ? '' : `: ${report.imageProblem}`}`],
    ['memory, weights', formatBytes(report.weightBytes)],
    ...(report.images ? [['memory, vision tower', formatBytes(report.towerBytes)] as const] : []),
    [
      'memory, 1,000 tokens',
      `${formatBytes(report.kvBytesPer1000Tokens)} (${formatBytes(report.kvBytesPer1000TokensQ8)} with 8-bit KV${inFourBits})`,
    ],
    ...recurrent,
    ...report.adapters.map(
      ({ name, matrices, ranks, scales, parameters: own }) =>
        [
          'adapter',
          `${name}: ${formatCount(own)} parameters in ${matrices} matrices, rank ${ranks.join(', ')}, scale ${scales.map((scale) => Number(scale.toPrecision(4))).join(', ')}`,
        ] as const,
    ),
  ]);
}
