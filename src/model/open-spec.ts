// From the paths of a model and its adapters to a spec and the weights it names.

import { openAdapter } from '../weights/adapter-files.ts';
import { type OpenedModel, openModelFiles } from '../weights/open-model.ts';
import type { WeightSource } from '../weights/weight-source.ts';
import { type NamedAdapter, withAdapters } from './adapters.ts';
import { type BuildSpecOptions, buildSpec } from './build-spec.ts';
import { classifierHead } from './classifier-head.ts';
import { withSecondTexts } from './second-texts.ts';
import type { ModelSpec } from './spec.ts';

export interface AdapterPath {
  readonly name: string;
  readonly path: string;
}

interface OpenedSpec {
  readonly files: OpenedModel;
  readonly spec: ModelSpec;
  /** Of the model and its adapters; closing them closes all files. */
  readonly weights: WeightSource;
}

export function openSpec(
  path: string,
  { adapters = [], ...options }: BuildSpecOptions & { readonly adapters?: readonly AdapterPath[] } = {},
): OpenedSpec {
  const files = openModelFiles(path);
  const opened: NamedAdapter[] = [];
  try {
    const spec = buildSpec(files, options);
    for (const { name, path: place } of adapters) opened.push({ name, files: openAdapter(place) });
    const adapted = withAdapters(spec, files, opened);
    // Embedding requests give one text at a time.
    const isPaired = classifierHead(files, spec) !== undefined;
    return { files, ...(isPaired ? withSecondTexts(adapted.spec, adapted.weights) : adapted) };
  } catch (error) {
    for (const adapter of opened) adapter.files.weights.close();
    files.weights.close();
    throw error;
  }
}
