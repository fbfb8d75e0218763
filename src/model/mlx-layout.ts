// Whether a folder's tensors are laid out as the hub has them or as MLX does, which stores some values changed: what nothing
// but wrong answers would show later is decided here, or refused.

import { ModelFileError } from '../weights/model-file-error.ts';
import type { OpenedModel, SafetensorsModel } from '../weights/open-model.ts';
import { readFloats, type TensorInfo, type WeightSource } from '../weights/weight-source.ts';
import { type LinearSpec, mapLeaves, type NormSpec, type TableSpec, type VectorSpec } from './leaves.ts';
import type { MtpSpec } from './spec.ts';

type Layout = 'mlx' | 'hub';

/**
 * By its depthwise convolutions (names end in `ending`), which the hub stores as [channels, 1, length] and MLX as
 * [channels, length, 1]; what the file says of itself must not contradict them.
 */
export function hasMlxLayout(opened: OpenedModel, ending: string): boolean {
  if (opened.format === 'gguf') return false;
  const convolutions = [...opened.weights.tensors.values()].filter(({ name }) => name.endsWith(ending));
  const shown = new Set(convolutions.map(layoutOf));
  const [layout] = shown;
  const [first] = convolutions;
  if (first === undefined || layout === undefined || shown.size > 1) {
    const shapes = new Set(convolutions.map(({ shape }) => `[${shape.join(', ')}]`));
    const problem = first === undefined ? 'is in no layer' : `has the shape ${[...shapes].join(' and ')}`;
    throw unclear(opened.path, ending, `${problem}, which tells neither the hub's layout nor MLX's`);
  }
  const stated = statedLayout(opened);
  if (stated === undefined || stated === layout) return layout === 'mlx';
  const problem = `has the shape [${first.shape.join(', ')}] of ${titles[layout]} in a file that calls itself ${titles[stated]}`;
  throw unclear(opened.path, first.name, problem);
}

/**
 * An MTP head whose norms have 1 added where the file has not. Tools that keep a head differ in that, and some of their files hold
 * norms of both kinds: around 0 they are as the hub has them, around 1 as MLX. Drafts that are wrong cost time alone.
 */
export function withRaisedNorms(head: MtpSpec, weights: WeightSource): MtpSpec {
  const raised = (norm: NormSpec): NormSpec =>
    typeof norm.weight === 'string' && isAroundZero(weights, norm.weight) ? { ...norm, offset: 1 } : norm;
  const same = <Leaf>(leaf: Leaf): Leaf => leaf;
  return mapLeaves<MtpSpec, SpecLeaves>(head, { norm: raised, linear: same, vector: same, table: same });
}

interface SpecLeaves {
  readonly norm: NormSpec;
  readonly linear: LinearSpec;
  readonly vector: VectorSpec;
  readonly table: TableSpec;
}

function isAroundZero(weights: WeightSource, name: string): boolean {
  // One that is missing is reported with all others.
  if (!weights.tensors.has(name)) return false;
  const values = readFloats(weights, name);
  return values.reduce((sum, value) => sum + value, 0) / values.length < 0.5;
}

const titles: Readonly<Record<Layout, string>> = { mlx: "MLX's layout", hub: "the hub's layout" };

function layoutOf({ shape }: TensorInfo): Layout | undefined {
  const [, second = 1, third = 1, ...more] = shape;
  if (shape.length !== 3 || more.length > 0 || (second === 1) === (third === 1)) return undefined;
  return third === 1 ? 'mlx' : 'hub';
}

/** Undefined where neither the configuration nor the header's metadata says. */
function statedLayout({ format, headerFormats = [] }: SafetensorsModel): Layout | undefined {
  if (format === 'mlx' || headerFormats.includes('mlx')) return 'mlx';
  return headerFormats.length > 0 ? 'hub' : undefined;
}

function unclear(file: string, field: string, problem: string): ModelFileError {
  const remedy =
    'The norms of such a file may have 1 added already or not, and a wrong choice would only show in bad answers: use the ' +
    "model's original files, or convert them again with a current mlx-lm.";
  return new ModelFileError({ file, field, problem, remedy });
}
