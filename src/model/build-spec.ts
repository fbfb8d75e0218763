// From an opened model file to its ModelSpec, checked: a spec that leaves here names only tensors that exist
// and have the right shape.

import { join } from 'node:path';
import { isEagle3Config } from '../weights/eagle3-files.ts';
import { ModelFileError } from '../weights/model-file-error.ts';
import type { OpenedModel } from '../weights/open-model.ts';
import { architectureOf } from './architectures.ts';
import { checkTensors } from './check-tensors.ts';
import { type Config, configError } from './config.ts';
import { ggufConfig } from './gguf-config.ts';
import { huggingFaceConfig, withDefaults, withUsualNames } from './hugging-face-config.ts';
import { withLayerLists } from './layer-config.ts';
import type { Architecture } from './model-builder.ts';
import { modelContext } from './rope-parameters.ts';
import { type ModelSizes, modelSizes } from './sizes.ts';
import type { ModelSpec } from './spec.ts';
import type { Naming } from './tensor-names.ts';

export interface BuildSpecOptions {
  /** Positions to serve at most. Below a model's own limit it may also choose rotary factors made for less. */
  readonly contextLength?: number;
  /** Also its MTP head, where the file has one, or why such a head is of no use. Default: the model alone. */
  readonly mtp?: boolean | { readonly problem: string } | undefined;
}

export function buildSpec(opened: OpenedModel, options: BuildSpecOptions = {}): ModelSpec {
  const { architecture, ...source } = describeModel(opened, options);
  refuseMissingLayers(source.config, source.sizes, opened);
  const naming = namingOf(opened);
  const build = (wantsMtp: boolean): ModelSpec => {
    const spec = architecture.build({ ...source, architecture: architecture.name, naming, opened, wantsMtp });
    checkTensors(spec, opened.weights, opened.path);
    return spec;
  };
  const plain = build(false);
  const { mtp = false } = options;
  return mtp === false ? plain : withMtp(plain, () => build(true), mtp === true ? undefined : mtp.problem);
}

/** Answers do without the head: where it is incomplete, or stored in a way that is not known, the model is served without. */
function withMtp(plain: ModelSpec, build: () => ModelSpec, problem: string | undefined): ModelSpec {
  try {
    const whole = build();
    const isOfUse = problem === undefined || whole.mtp === undefined;
    return isOfUse ? whole : { ...plain, mtpProblem: problem };
  } catch (error) {
    if (error instanceof ModelFileError) return { ...plain, mtpProblem: error.message };
    throw error;
  }
}

interface DescribedModel {
  readonly architecture: Architecture;
  readonly config: Config;
  readonly sizes: ModelSizes;
}

export function describeModel(opened: OpenedModel, options: BuildSpecOptions = {}): DescribedModel {
  const naming = namingOf(opened);
  const written =
    opened.format === 'gguf'
      ? ggufConfig(opened.path, opened.metadata, opened.weights)
      : huggingFaceConfig(join(opened.directory, 'config.json'), opened.config);
  if (isEagle3Config(written.fields)) throw headAlone(written);
  const architecture = architectureOf(written, naming);
  const defaults = naming === 'gguf' ? architecture.ggufDefaults : architecture.defaults;
  const named = withUsualNames(written, architecture.otherNames ?? {});
  const config = withLayerLists(withDefaults(named, defaults ?? {}), architecture.layerLists ?? []);
  return { architecture, config, sizes: modelSizes(config, modelContext(config), options.contextLength) };
}

function headAlone(config: Config): ModelFileError {
  const problem = 'is that of an EAGLE-3 head, which drafts for a model and is none';
  return configError(config, 'architectures', problem, 'Give its model, and the head as `draft`.');
}

function namingOf({ format }: OpenedModel): Naming {
  return format === 'gguf' ? 'gguf' : 'hugging-face';
}

// Before anything is made for each layer: a damaged count may be in the millions.
function refuseMissingLayers(config: Config, sizes: ModelSizes, opened: OpenedModel): void {
  if (sizes.layerCount <= opened.weights.tensors.size) return;
  throw configError(
    config,
    'num_hidden_layers',
    `claims ${sizes.layerCount} layers, but the file holds ${opened.weights.tensors.size} tensors in all`,
    'The file is damaged or incomplete; download it again.',
  );
}
