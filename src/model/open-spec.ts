// From the paths of a model and its adapters to a spec and the weights it names.

import { openAdapter } from '../weights/adapter-files.ts';
import { openEagle3 } from '../weights/eagle3-files.ts';
import { ModelFileError } from '../weights/model-file-error.ts';
import { type OpenedModel, openModelFiles } from '../weights/open-model.ts';
import { projectorFor } from '../weights/projector-files.ts';
import { openVisionFiles } from '../weights/vision-files.ts';
import type { WeightSource } from '../weights/weight-source.ts';
import { type NamedAdapter, withAdapters } from './adapters.ts';
import { type BuildSpecOptions, buildSpec } from './build-spec.ts';
import { checkTensors } from './check-tensors.ts';
import { classifierHead } from './classifier-head.ts';
import { withEagle3 } from './eagle3.ts';
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
  /** Why it has no tower, where one was to be opened if possible. */
  readonly visionProblem?: string;
}

export interface OpenSpecOptions extends BuildSpecOptions {
  readonly adapters?: readonly AdapterPath[];
  /** Opens the vision tower, too, or throws where there is none, unless it is only wanted if possible. Default: the text model alone. */
  readonly images?: boolean | 'if-possible' | undefined;
  /** Of a GGUF: its projector file. Default: the one beside it. */
  readonly projectorPath?: string | undefined;
  /** The folder of an EAGLE-3 head, in place of an MTP head. */
  readonly eagle3Path?: string | undefined;
}

export function openSpec(
  path: string,
  { adapters = [], images = false, projectorPath, eagle3Path, ...options }: OpenSpecOptions = {},
): OpenedSpec {
  let files = openModelFiles(path);
  const opened: NamedAdapter[] = [];
  try {
    let spec = buildSpec(files, options);
    let visionProblem: string | undefined;
    const projector = projectorPath ?? (files.format === 'gguf' ? projectorFor(files.path) : undefined);
    if (images === true || (images === 'if-possible' && isSaidToSee(files, projector))) {
      try {
        ({ spec, files } = openTower(files, spec, projector));
      } catch (error) {
        if (images === true || !(error instanceof ModelFileError)) throw error;
        visionProblem = error.message;
      }
    }
    for (const { name, path: place } of adapters) opened.push({ name, files: openAdapter(place) });
    const adapted = withAdapters(spec, files, opened);
    // Embedding requests give one text at a time.
    const isPaired = classifierHead(files, spec) !== undefined;
    const whole = isPaired ? withSecondTexts(adapted.spec, adapted.weights) : adapted;
    return {
      files,
      ...(eagle3Path === undefined ? whole : withEagle3Folder(whole, eagle3Path)),
      ...(visionProblem === undefined ? {} : { visionProblem }),
    };
  } catch (error) {
    for (const adapter of opened) adapter.files.weights.close();
    files.weights.close();
    throw error;
  }
}

/** Leaves the model open where it throws. */
function withEagle3Folder(model: Pick<OpenedSpec, 'spec' | 'weights'>, path: string) {
  const head = openEagle3(path);
  try {
    return withEagle3(model, head);
  } catch (error) {
    head.weights.close();
    throw error;
  }
}

/** Whether its files hold a tower, or name one. */
function isSaidToSee(files: OpenedModel, projector: string | undefined): boolean {
  return files.format === 'gguf' ? projector !== undefined : files.config.vision_config !== undefined;
}

interface SeeingSpec {
  readonly spec: ModelSpec;
  readonly files: OpenedModel;
}

/** Leaves `files` open and as they were where it throws. */
function openTower(opened: OpenedModel, text: ModelSpec, projectorPath: string | undefined): SeeingSpec {
  const vision = openVisionFiles(opened, projectorPath);
  try {
    const spec = withVision(text, buildVision(visionSource(opened, vision, text)), opened.path);
    const files = { ...opened, weights: vision.weights };
    checkTensors(spec, files.weights, files.path);
    return { spec, files };
  } catch (error) {
    vision.projector?.weights.close();
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
