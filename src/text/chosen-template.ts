// A chat template that somebody chose for a model, by the name of its family or by a file.

import { existsSync, readFileSync } from 'node:fs';
import { messageOf } from '../runtime/error-message.ts';
import { chatTemplate } from './chat-template.ts';
import { namedTemplates } from './named-templates.ts';

export interface ChosenTemplate {
  readonly template: string;
  /** It is one of ours, which writes what a text begins with only where the model wants it. */
  readonly named: boolean;
  /** Takes the place of a template that the model has; else it is for models without one. */
  readonly replaces: boolean;
}

/** Throws in words for whoever chose it. */
export function readChosenTemplate(choice: string, replaces: boolean): ChosenTemplate {
  const named = Object.hasOwn(namedTemplates, choice) && !existsSync(choice);
  const template = named ? (namedTemplates[choice] as string) : readTemplateFile(choice);
  chatTemplate({ template, specialTokens: {} });
  return { template, named, replaces };
}

function readTemplateFile(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    const names = Object.keys(namedTemplates).join(', ');
    throw new Error(`${messageOf(error)}; give a file, or one of ${names}`);
  }
}
