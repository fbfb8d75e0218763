// JSON objects from untrusted model files.

import { openFile } from './file-reader.ts';
import { ModelFileError } from './model-file-error.ts';

export type JsonObject = Readonly<Record<string, unknown>>;

// Parsed JSON takes up to twenty times its text. The largest real headers and indexes have a few MB.
export const MAX_JSON_BYTES = 32 * 2 ** 20;

export function readJsonFile(path: string): JsonObject {
  return parseJsonObject(readBytes(path), path, 'JSON');
}

export function readJsonList(path: string): readonly unknown[] {
  const value = parseJson(readBytes(path), path, 'JSON');
  if (Array.isArray(value)) return value;
  throw jsonFault(path, 'JSON', 'is not a list');
}

function readBytes(path: string): Buffer {
  const file = openFile(path);
  try {
    if (file.size > MAX_JSON_BYTES) {
      throw jsonFault(path, 'size', `has ${file.size} bytes, above the limit of ${MAX_JSON_BYTES}`);
    }
    return file.readAt(0, file.size, 'text');
  } finally {
    file.close();
  }
}

export function parseJsonObject(bytes: Buffer, path: string, field: string): JsonObject {
  const value = parseJson(bytes, path, field);
  if (isJsonObject(value)) return value;
  throw jsonFault(path, field, 'is not a JSON object');
}

function parseJson(bytes: Buffer, path: string, field: string): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch {
    throw jsonFault(path, field, 'is not valid JSON');
  }
}

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function jsonFault(file: string, field: string, problem: string): ModelFileError {
  return new ModelFileError({
    file,
    field,
    problem,
    remedy: 'The file is damaged: download or convert it again.',
  });
}
