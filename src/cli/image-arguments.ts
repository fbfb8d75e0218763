// Images for a question: files that an option names, and paths that are dropped into a chat.

import { readFileSync, statSync } from 'node:fs';
import { messageOf } from '../runtime/error-message.ts';
import type { ChatMessage } from './chat-answers.ts';
import { UsageError } from './usage-error.ts';

type Content = ChatMessage['content'];

/** Images come before the text. */
export function withImages(text: string, paths: readonly string[]): Content {
  if (paths.length === 0) return text;
  return [...paths.map(imagePart), { type: 'text', text }];
}

function imagePart(path: string) {
  if (/^https?:\/\//i.test(path)) {
    throw new UsageError(`--image: ${path.slice(0, 80)} is not fetched; give the path of a file`);
  }
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) {
    throw new UsageError(`--image: ${path} is a folder; give the path of a file`);
  }
  try {
    const url = `data:image/png;base64,${readFileSync(path).toString('base64')}`;
    return { type: 'image_url', image_url: { url } };
  } catch (error) {
    throw new UsageError(`--image: ${path}: ${messageOf(error)}`);
  }
}

/** Quoted, or with its spaces escaped, as terminals write what is dropped on them. */
const PATH = /'([^']+)'|"([^"]+)"|((?:\\.|[^\s'"\\])+)/g;

/** Paths of images in a line, which are there, and what else it says. */
export function droppedImages(line: string): { readonly text: string; readonly paths: readonly string[] } {
  const paths: string[] = [];
  const text = line.replace(PATH, (whole, single?: string, double?: string, bare?: string) => {
    const path = single ?? double ?? bare?.replace(/\\(.)/g, '$1') ?? '';
    if (!/\.(png|jpe?g|webp|gif)$/i.test(path) || !isFile(path)) return whole;
    paths.push(path);
    return '';
  });
  return paths.length === 0 ? { text: line, paths } : { text: text.trim(), paths };
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
}
