// A model on disk, opened: its spec, its weights, its tokenizer, template and pooling. Nothing is loaded yet.

import type { BuildSpecOptions } from '../model/build-spec.ts';
import { type AdapterPath, openSpec } from '../model/open-spec.ts';
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
  readonly fillInMiddle: FillInMiddle | undefined;
  /** How its files say that it is best sampled from. */
  readonly sampling: SamplingDefaults;
  close(): void;
}

export interface LocalModelOptions extends BuildSpecOptions {
  readonly adapters?: readonly AdapterPath[];
  /** For a model that has no template, or in place of its own. */
  readonly chatTemplate?: ChosenTemplate | undefined;
  /** How it writes calls, where that is not what its template tells. */
  readonly toolFormat?: FormatName | undefined;
}

export function openLocalModel(
  path: string,
  { chatTemplate, toolFormat, ...options }: LocalModelOptions = {},
): LocalModel {
  const { files, spec, weights } = openSpec(path, options);
  try {
    const { tokenizer, template: own, fillInMiddle } = openText(files, chatTemplate);
    const template = own && withFormat(own, toolFormat);
    const pooling = modelPooling(files, spec);
    const sampling = modelSampling(files);
    const close = () => weights.close();
    return { files, spec, weights, tokenizer, template, fillInMiddle, sampling, pooling, close };
  } catch (error) {
    weights.close();
    throw error;
  }
}

function withFormat(template: ChatTemplate, name: FormatName | undefined): ChatTemplate {
  return name === undefined ? template : { ...template, format: chosenFormat(name, template.source) };
}
