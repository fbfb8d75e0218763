// Opens the tokenizer and chat template of a model: from GGUF metadata, or from the files of a folder.

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { MetadataReader } from '../weights/gguf-metadata.ts';
import { isJsonObject, type JsonObject, parseJsonObject } from '../weights/json-file.ts';
import { ModelFileError } from '../weights/model-file-error.ts';
import {
  type ChatTemplate,
  ChatTemplateError,
  type ChatTemplateSource,
  chatTemplate,
} from './chat-template.ts';
import type { ChosenTemplate } from './chosen-template.ts';
import { type FillInMiddle, fillInMiddleOf } from './fill-in-middle.ts';
import { type GgufMetadata, ggufTokenizer } from './gguf-tokenizer.ts';
import type { Tokenizer } from './tokenizer.ts';
import { jsonTokenizer, specialTokenText, type TokenizerFiles } from './tokenizer-json/tokenizer-json.ts';

type TextSource =
  | ({ readonly format: 'gguf' } & GgufMetadata)
  | { readonly format: 'safetensors' | 'mlx'; readonly directory: string; readonly config: JsonObject };

export interface ModelText {
  readonly tokenizer: Tokenizer;
  readonly template: ChatTemplate | undefined;
  readonly fillInMiddle?: FillInMiddle | undefined;
}

export function openText(source: TextSource, chosen?: ChosenTemplate): ModelText {
  const isGguf = source.format === 'gguf';
  const text = isGguf ? fromGguf(source, chosen) : fromFolder(source.directory, source.config, chosen);
  const declared = isGguf ? (key: string) => source.metadata.get(key) : undefined;
  return { ...text, fillInMiddle: fillInMiddleOf(text.tokenizer, declared) };
}

function fromGguf(gguf: GgufMetadata, chosen: ChosenTemplate | undefined): ModelText {
  const tokenizer = ggufTokenizer(gguf);
  const key = 'tokenizer.chat_template';
  const reader = new MetadataReader(gguf);
  const template = reader.optionalString(key);
  const toolTemplate = reader.optionalString(`${key}.tool_use`);
  const spelled = { bos_token: tokenizer.bosId, eos_token: tokenizer.eosId };
  const specialTokens: Record<string, string> = {};
  for (const [name, id] of Object.entries(spelled)) {
    const text = id === undefined ? undefined : tokenizer.tokenText(id);
    if (text !== undefined) specialTokens[name] = text;
  }
  if (isWanted(chosen, template)) return { tokenizer, template: fitted(chosen, specialTokens, tokenizer) };
  if (template === undefined) return { tokenizer, template };
  return { tokenizer, template: readable(gguf.path, key, { template, toolTemplate, specialTokens }) };
}

function isWanted(chosen: ChosenTemplate | undefined, own: unknown): chosen is ChosenTemplate {
  return chosen !== undefined && (chosen.replaces || own === undefined);
}

function fitted(
  { template, named }: ChosenTemplate,
  { bos_token: bos, ...rest }: Readonly<Record<string, string>>,
  { addBos }: Tokenizer,
): ChatTemplate {
  const begins = bos !== undefined && (addBos || !named);
  return chatTemplate({ template, specialTokens: begins ? { bos_token: bos, ...rest } : rest });
}

function fromFolder(
  directory: string,
  modelConfig: JsonObject,
  chosen: ChosenTemplate | undefined,
): ModelText {
  const path = join(directory, 'tokenizer.json');
  if (!existsSync(path)) throw missingTokenizer(directory);
  const files: TokenizerFiles = {
    path,
    tokenizer: parseJsonObject(readFileSync(path), path, 'JSON'),
    tokenizerConfig: optionalJson(directory, 'tokenizer_config.json'),
    specialTokensMap: optionalJson(directory, 'special_tokens_map.json'),
    generationConfig: optionalJson(directory, 'generation_config.json'),
    modelConfig,
  };
  const tokenizer = jsonTokenizer(files);
  const specialTokens = specialTokensOf(files);
  const own = chosen?.replaces ? undefined : folderTemplate(directory, files, specialTokens);
  return { tokenizer, template: isWanted(chosen, own) ? fitted(chosen, specialTokens, tokenizer) : own };
}

function optionalJson(directory: string, name: string): JsonObject | undefined {
  const path = join(directory, name);
  return existsSync(path) ? parseJsonObject(readFileSync(path), path, 'JSON') : undefined;
}

function specialTokensOf(files: TokenizerFiles): Readonly<Record<string, string>> {
  const specialTokens: Record<string, string> = {};
  for (const name of ['bos_token', 'eos_token', 'unk_token', 'pad_token']) {
    const text = specialTokenText(files, name);
    if (text !== undefined) specialTokens[name] = text;
  }
  return specialTokens;
}

/** A template file overrides the tokenizer's settings. */
function folderTemplate(
  directory: string,
  files: TokenizerFiles,
  specialTokens: Readonly<Record<string, string>>,
): ChatTemplate | undefined {
  const path = join(directory, 'chat_template.jinja');
  if (existsSync(path)) {
    return readable(path, 'template', { template: readFileSync(path, 'utf8'), specialTokens });
  }
  const { template, toolTemplate } = namedTemplates(files.tokenizerConfig?.chat_template);
  if (template === undefined) return processorTemplate(directory, specialTokens);
  const configPath = join(directory, 'tokenizer_config.json');
  return readable(configPath, 'chat_template', { template, toolTemplate, specialTokens });
}

/** Models that see images may have theirs in a file of their processor. */
function processorTemplate(
  directory: string,
  specialTokens: Readonly<Record<string, string>>,
): ChatTemplate | undefined {
  const name = 'chat_template.json';
  const { template } = namedTemplates(optionalJson(directory, name)?.chat_template);
  if (template === undefined) return undefined;
  return readable(join(directory, name), 'chat_template', { template, specialTokens });
}

/** Written as one template, or as a list of `{ name, template }`. */
function namedTemplates(value: unknown): {
  template?: string | undefined;
  toolTemplate?: string | undefined;
} {
  if (typeof value === 'string') return { template: value };
  if (!Array.isArray(value)) return {};
  const named = (name: string): string | undefined => {
    const entry = value.find((candidate) => isJsonObject(candidate) && candidate.name === name);
    return typeof entry?.template === 'string' ? entry.template : undefined;
  };
  return { template: named('default'), toolTemplate: named('tool_use') };
}

function readable(file: string, field: string, source: ChatTemplateSource): ChatTemplate {
  try {
    return chatTemplate(source);
  } catch (error) {
    if (!(error instanceof ChatTemplateError)) throw error;
    const remedy = 'Use the template that came with the model, or remove it to serve completions only.';
    throw new ModelFileError({ file, field, problem: error.message, remedy });
  }
}

function missingTokenizer(directory: string): ModelFileError {
  const sentencePiece = existsSync(join(directory, 'tokenizer.model'));
  return new ModelFileError({
    file: directory,
    field: 'tokenizer.json',
    problem: sentencePiece ? 'is missing; tokenizer.model alone is not supported' : 'is missing',
    remedy: 'Download tokenizer.json into the folder, or use a GGUF file of the model.',
  });
}
