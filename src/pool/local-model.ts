// Models and adapters on disk, opened: a model's spec, weights, tokenizer, template and pooling. Nothing is loaded yet.

import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { draftRefusal } from '../engine/speculation/draft-model.ts';
import { type ModelClassifier, modelClassifier } from '../model/classifier.ts';
import { type AdapterPath, type OpenSpecOptions, openSpec } from '../model/open-spec.ts';
import { type ModelPooling, modelPooling } from '../model/pooling.ts';
import type { ModelSpec } from '../model/spec.ts';
import type { SamplingDefaults } from '../sampling/parameters.ts';
import type { ChatTemplate } from '../text/chat-template.ts';
import type { ChosenTemplate } from '../text/chosen-template.ts';
import type { FillInMiddle } from '../text/fill-in-middle.ts';
import { chosenFormat } from '../text/formats/detect.ts';
import type { FormatName } from '../text/formats/format.ts';
import { openText } from '../text/open-text.ts';
import type { Tokenizer } from '../text/tokenizer.ts';
import { openAdapter } from '../weights/adapter-files.ts';
import type { OpenedModel } from '../weights/open-model.ts';
import type { WeightSource } from '../weights/weight-source.ts';
import { modelSampling } from './model-sampling.ts';

export interface LocalModel {
  readonly files: OpenedModel;
  readonly spec: ModelSpec;
  /** Of the model and its adapters. */
  readonly weights: WeightSource;
  readonly tokenizer: Tokenizer;
  readonly template: ChatTemplate | undefined;
  readonly pooling: ModelPooling;
  readonly classifier: ModelClassifier | undefined;
  readonly fillInMiddle: FillInMiddle | undefined;
  /** How its files say that it is best sampled from. */
  readonly sampling: SamplingDefaults;
  /** Why it reads no images, though its files say that it would. */
  readonly visionProblem: string | undefined;
  close(): void;
}

export interface LocalModelOptions extends OpenSpecOptions {
  /** For a model that has no template, or in place of its own. */
  readonly chatTemplate?: ChosenTemplate | undefined;
  /** How it writes calls, where that is not what its template says. */
  readonly toolFormat?: FormatName | undefined;
}

export function openLocalModel(
  path: string,
  { chatTemplate, toolFormat, ...options }: LocalModelOptions = {},
): LocalModel {
  const { files, spec, weights, visionProblem } = openSpec(path, options);
  try {
    const { tokenizer, template: own, fillInMiddle } = openText(files, chatTemplate ?? familyTemplate(spec));
    const template = own && withFormat(own, toolFormat);
    const classifier = modelClassifier(files, spec);
    const pooling = classifier === undefined ? modelPooling(files, spec) : scoredAlone;
    const sampling = modelSampling(files);
    const close = () => weights.close();
    const text = { tokenizer, template, fillInMiddle, sampling, pooling, classifier };
    return { files, spec, weights, ...text, visionProblem, close };
  } catch (error) {
    weights.close();
    throw error;
  }
}

/** Of families whose files have none. */
function familyTemplate({ vision }: ModelSpec): ChosenTemplate | undefined {
  const template = vision?.prompt.template;
  return template === undefined ? undefined : { template, named: false, replaces: false };
}

const scoredAlone: ModelPooling = {
  possible: false,
  problem: 'scores texts with a head of its own, and has no vectors',
};

function withFormat(template: ChatTemplate, name: FormatName | undefined): ChatTemplate {
  return name === undefined ? template : { ...template, format: chosenFormat(name, template.source) };
}

/** A smaller model that drafts for another, of the same tokens. Its files are closed again; throws where it cannot draft. */
export function openDraft(
  path: string,
  { spec: wanted, tokenizer }: { readonly spec: ModelSpec; readonly tokenizer: Tokenizer },
): { readonly spec: ModelSpec; readonly weights: WeightSource } {
  const { spec, weights, tokenizer: own, close } = openLocalModel(path);
  close();
  const refusal = draftRefusal(spec, wanted.vocabSize) ?? otherTokens(own, tokenizer);
  if (refusal !== undefined) throw new Error(`--draft: ${path} cannot draft for this model: ${refusal}`);
  return { spec, weights };
}

function otherTokens(own: Tokenizer, wanted: Tokenizer): string | undefined {
  const count = Math.min(own.vocabSize, wanted.vocabSize);
  for (let id = 0; id < count; id++) {
    const [a, b] = [own.tokenBytes(id), wanted.tokenBytes(id)];
    if (Buffer.compare(a, b) !== 0) return `token ${id} is another one`;
  }
  return undefined;
}

export interface GivenAdapter extends AdapterPath {
  /** The model's name. */
  readonly model: string;
  /** Seconds since 1970 when its file was last changed. */
  readonly createdSeconds: number;
}

/** Reads `model:name=path`, before anything is served. Throws where the text is another, or the path holds no adapter. */
export function readGivenAdapter(text: string): GivenAdapter {
  const found = /^([^=]+):([^=:]+)=(.+)$/.exec(text);
  const [, model = '', name = '', given = ''] = found ?? [];
  if (found === null) throw new Error(`give model:name=path, not ${text}`);
  const files = openAdapter(resolve(given));
  files.weights.close();
  return {
    model,
    name,
    path: resolve(given),
    createdSeconds: Math.floor(statSync(files.path).mtimeMs / 1000),
  };
}
