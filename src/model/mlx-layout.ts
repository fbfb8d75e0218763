// Whether a folder's tensors are laid out as the hub has them or as MLX does, which stores some values changed: what nothing
// but wrong answers would show later is decided here, or refused.

import { ModelFileError } from '../weights/model-file-error.ts';
import type { OpenedModel, SafetensorsModel } from '../weights/open-model.ts';
import type { TensorInfo } from '../weights/weight-source.ts';

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
