// The head of a classifier: maps of a pooled state to one output for each label. Where it lies, and under which names, in folders of
// Hugging Face and in GGUF files. Some rerankers have none, and are asked for the logits of two tokens.

import { existsSync } from 'node:fs';
import { basename, join } from 'node:path';
import { MetadataReader } from '../weights/gguf-metadata.ts';
import { isJsonObject, type JsonObject, readJsonFile } from '../weights/json-file.ts';
import { ModelFileError } from '../weights/model-file-error.ts';
import type { OpenedModel, SafetensorsModel } from '../weights/open-model.ts';
import {
  columnsOf,
  readFloatRows,
  readFloats,
  requireTensor,
  rowsOf,
  type WeightSource,
} from '../weights/weight-source.ts';
import type { DenseLayer } from './dense-layers.ts';
import { modulesOf } from './modules.ts';
import type { Pooling } from './pooling.ts';
import type { ModelSpec } from './spec.ts';
import { isEncoder } from './spec-walk.ts';

interface HeadLayer {
  readonly name: string;
  readonly activation: DenseLayer['activation'];
  readonly norm?: { readonly name: string; readonly epsilon: number };
}

interface ClassifierHead {
  readonly pooling: Pooling;
  readonly outputs: number;
  readonly source:
    | { readonly kind: 'layers'; readonly layers: readonly HeadLayer[] }
    /** The output is the logit of the first, less that of the second where there is one. */
    | { readonly kind: 'tokens'; readonly yes: number; readonly no: number | undefined };
}

/** Undefined where the model has no head that classifies. */
export function classifierHead(opened: OpenedModel, spec: ModelSpec): ClassifierHead | undefined {
  const tokens = opened.format === 'gguf' ? undefined : scoredTokens(opened);
  if (tokens !== undefined) return { pooling: 'last', outputs: 1, source: { kind: 'tokens', ...tokens } };
  const found = opened.format === 'gguf' ? ggufHead(opened, spec) : folderHead(opened, spec);
  if (found === undefined) return undefined;
  const { layers, pooling } = found;
  const last = opened.weights.tensors.get(`${layers.at(-1)?.name}.weight`);
  if (last === undefined) return undefined;
  return { pooling, outputs: rowsOf(last), source: { kind: 'layers', layers } };
}

export function readClassifierHead(opened: OpenedModel, spec: ModelSpec): readonly DenseLayer[] | undefined {
  const head = classifierHead(opened, spec);
  if (head === undefined) return undefined;
  const { source } = head;
  const { weights } = opened;
  if (source.kind === 'tokens') return [tokenLayer(source, spec, weights)];
  const layers = source.layers.map((layer) => readLayer(layer, weights));
  const sizes = [spec.hiddenSize, ...layers.map(({ rows }) => rows)];
  const wrong = layers.findIndex(({ columns, bias, rows }, at) => {
    return columns !== sizes[at] || (bias !== undefined && bias.length !== rows);
  });
  if (wrong === -1) return layers;
  throw new ModelFileError({
    file: opened.path,
    field: `${source.layers[wrong]?.name}.weight`,
    problem: 'does not fit what comes before it',
    remedy: 'The file is damaged or of another kind; download it again.',
  });
}

function readLayer({ name, activation, norm }: HeadLayer, weights: WeightSource): DenseLayer {
  const weight = requireTensor(weights, `${name}.weight`);
  const values = (tensor: string) => (weights.tensors.has(tensor) ? readFloats(weights, tensor) : undefined);
  return {
    rows: rowsOf(weight),
    columns: columnsOf(weight),
    activation,
    weight: readFloats(weights, weight.name),
    bias: values(`${name}.bias`),
    norm: norm && {
      weight: readFloats(weights, `${norm.name}.weight`),
      bias: values(`${norm.name}.bias`),
      epsilon: norm.epsilon,
    },
  };
}

function tokenLayer(
  { yes, no }: { readonly yes: number; readonly no: number | undefined },
  { head, hiddenSize }: ModelSpec,
  weights: WeightSource,
): DenseLayer {
  const { tensor, firstRow } = head.weight;
  const row = (id: number) => readFloatRows(weights, tensor, firstRow + id, 1);
  const [wanted, other] = [row(yes), no === undefined ? undefined : row(no)];
  const weight = wanted.map((value, at) => value - (other?.[at] ?? 0));
  return { rows: 1, columns: hiddenSize, activation: 'none', weight, bias: undefined };
}

type FoundHead = { readonly layers: readonly HeadLayer[]; readonly pooling: Pooling } | undefined;

const firstToken = 'cls' as const;

/** As transformers saves `…ForSequenceClassification`. */
function folderHead({ config, weights }: SafetensorsModel, spec: ModelSpec): FoundHead {
  const [architecture] = Array.isArray(config.architectures) ? config.architectures : [];
  if (!/ForSequenceClassification$/.test(String(architecture))) return undefined;
  const has = (name: string) => weights.tensors.has(`${name}.weight`);
  const none = 'none' as const;
  if (has('score')) return { layers: [{ name: 'score', activation: none }], pooling: 'last' };
  if (has('head.dense')) {
    const activation = config.classifier_activation === 'silu' ? 'silu' : 'gelu';
    const norm = { name: 'head.norm', epsilon: Number(config.norm_eps ?? 1e-5) };
    const layers = [
      { name: 'head.dense', activation, norm } as const,
      { name: 'classifier', activation: none },
    ];
    return { layers, pooling: config.classifier_pooling === 'mean' ? 'mean' : firstToken };
  }
  const tanh = 'tanh' as const;
  if (has('classifier.out_proj')) {
    const layers = [
      { name: 'classifier.dense', activation: tanh },
      { name: 'classifier.out_proj', activation: none },
    ];
    return { layers, pooling: firstToken };
  }
  if (!has('classifier') || !isEncoder(spec)) return undefined;
  const pooler = ['bert.pooler.dense', 'pooler.dense']
    .filter(has)
    .map((name) => ({ name, activation: tanh }));
  return { layers: [...pooler, { name: 'classifier', activation: none }], pooling: firstToken };
}

/** By llama.cpp's number for ranking. */
const RANKS = 4;
const MEAN = 1;

function ggufHead(gguf: Extract<OpenedModel, { format: 'gguf' }>, spec: ModelSpec): FoundHead {
  const reader = new MetadataReader(gguf);
  const prefix = reader.optionalString('general.architecture') ?? '';
  if (reader.optionalNumber(`${prefix}.pooling_type`) !== RANKS) return undefined;
  const { tensors } = gguf.weights;
  const isModern = prefix === 'modern-bert';
  const epsilon = reader.optionalNumber(`${prefix}.attention.layer_norm_epsilon`) ?? 1e-5;
  const norm = tensors.has('cls.norm.weight') ? { norm: { name: 'cls.norm', epsilon } } : {};
  const layers: HeadLayer[] = [];
  if (tensors.has('cls.weight')) {
    layers.push({ name: 'cls', activation: isModern ? 'gelu' : 'tanh', ...norm });
  }
  if (tensors.has('cls.output.weight')) layers.push({ name: 'cls.output', activation: 'none' });
  if (layers.length === 0) return undefined;
  if (!isEncoder(spec)) return { layers, pooling: 'last' };
  const type = reader.optionalNumber(`${prefix}.classifier.pooling_type`) ?? (isModern ? MEAN : undefined);
  return { layers, pooling: type === MEAN ? 'mean' : firstToken };
}

/** Where a causal model's answer is the score: as sentence-transformers or vLLM say it, or as Qwen names its rerankers. */
function scoredTokens({ directory, config }: SafetensorsModel) {
  const step = modulesOf(directory)?.find(({ kind }) => kind === 'LogitScore');
  if (step !== undefined) {
    const { true_token_id: yes, false_token_id: no } = readJsonFile(join(step.directory, 'config.json'));
    return { yes: Number(yes), no: no === null || no === undefined ? undefined : Number(no) };
  }
  const [architecture] = Array.isArray(config.architectures) ? config.architectures : [];
  if (architecture !== 'Qwen3ForCausalLM') return undefined;
  const { classifier_from_token: named } = config;
  const isNamed =
    /qwen3-reranker/i.test(basename(directory)) || /qwen3-reranker/i.test(String(config._name_or_path));
  if (Array.isArray(named)) return tokensNamed(directory, String(named[1]), String(named[0]));
  return isNamed ? tokensNamed(directory, 'yes', 'no') : undefined;
}

function tokensNamed(directory: string, yes: string, no: string) {
  const file = join(directory, 'tokenizer.json');
  if (!existsSync(file)) return undefined;
  const { model } = readJsonFile(file);
  const vocabulary: JsonObject = isJsonObject(model) && isJsonObject(model.vocab) ? model.vocab : {};
  const ids = [vocabulary[yes], vocabulary[no]];
  return ids.every(Number.isInteger) ? { yes: ids[0] as number, no: ids[1] as number } : undefined;
}
