// From the paths of a model and its adapters to a spec and the weights it names.

import { openAdapter } from '../weights/adapter-files.ts';
import { ModelFileError } from '../weights/model-file-error.ts';
import { type OpenedModel, openModelFiles } from '../weights/open-model.ts';
import { openVisionFiles } from '../weights/vision-files.ts';
import type { WeightSource } from '../weights/weight-source.ts';
import { type NamedAdapter, withAdapters } from './adapters.ts';
import { type BuildSpecOptions, buildSpec } from './build-spec.ts';
import { checkTensors } from './check-tensors.ts';
import { classifierHead } from './classifier-head.ts';
import { withSecondTexts } from './second-texts.ts';
import type { ModelSpec } from './spec.ts';
import { buildVision } from './vision/families.ts';
import { visionSource } from './vision/vision-source.ts';

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

export interface OpenSpecOptions extends BuildSpecOptions {
  readonly adapters?: readonly AdapterPath[];
  /** Opens the vision tower, too, or throws where there is none. Default false: the text model alone. */
  readonly images?: boolean | undefined;
}

export function openSpec(
  path: string,
  { adapters = [], images = false, ...options }: OpenSpecOptions = {},
): OpenedSpec {
  let files = openModelFiles(path);
  const opened: NamedAdapter[] = [];
  try {
    let spec = buildSpec(files, options);
    if (images) {
      const vision = openVisionFiles(files);
      spec = withVision(spec, buildVision(visionSource(files, vision, spec)), files.path);
      files = { ...files, weights: vision.weights };
      checkTensors(spec, files.weights, files.path);
    }
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

function withVision(
  { textOnly: _, ...spec }: ModelSpec,
  vision: NonNullable<ModelSpec['vision']>,
  file: string,
): ModelSpec {
  const turnsByAxes = spec.ropes.some(({ axes }) => axes !== undefined);
  if (vision.prompt.positions !== 'three-part' || turnsByAxes) return { ...spec, vision };
  throw new ModelFileError({
    file,
    field: 'mrope_section',
    problem: 'does not say which rotary pairs turn by rows and columns of images',
    remedy: 'Download the model again, or convert it with a current tool.',
  });
}
