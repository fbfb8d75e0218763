// Prompts by a template that a request or a created model gives, in Ollama's way: a template that knows of messages gets
// them all, any other is rendered once for each turn.

import { badRequest } from '../http/errors.ts';
import { type GoTemplate, goTemplate, TemplateError, templateBudget } from './go-template.ts';

interface Turn {
  readonly role: string;
  readonly content: string;
}

/** Stands for the answer: the prompt ends before it. */
const ANSWER = '\u0000answer\u0000';

export function templatedPrompt(source: string, messages: readonly Turn[]): string {
  try {
    const template = goTemplate(source);
    const text = /\.Messages\b/.test(source)
      ? byMessages(template, messages)
      : byTurns(withResponse(template, source), messages);
    const end = text.indexOf(ANSWER);
    return end < 0 ? text : text.slice(0, end);
  } catch (error) {
    if (error instanceof TemplateError) throw badRequest('template', error.message);
    if (error instanceof RangeError) throw badRequest('template', 'is nested too deep');
    throw error;
  }
}

/** Checks it before anything is rendered with it. */
export function checkTemplate(source: string): void {
  templatedPrompt(source, [{ role: 'user', content: '' }]);
}

function byMessages(template: GoTemplate, messages: readonly Turn[]): string {
  const said = (role: string) => messages.filter((one) => one.role === role).map(({ content }) => content);
  return template({
    System: said('system').join('\n\n'),
    Prompt: said('user').at(-1) ?? '',
    Response: ANSWER,
    Messages: messages.map(({ role, content }) => ({ Role: role, Content: content })),
    Tools: [],
  });
}

/** Ollama writes responses at the end where the template does not place them. */
function withResponse(template: GoTemplate, source: string): GoTemplate {
  return /\.Response\b/.test(source)
    ? template
    : (data, budget) => `${template(data, budget)}${data.Response}`;
}

function byTurns(template: GoTemplate, messages: readonly Turn[]): string {
  const budget = templateBudget();
  let text = '';
  let turn = { System: '', Prompt: '' };
  const write = (Response: string) => {
    text += template({ ...turn, Response, Messages: [], Tools: [] }, budget);
    turn = { System: '', Prompt: '' };
  };
  for (const [at, { role, content }] of messages.entries()) {
    // The answer goes on with an assistant's message at the end.
    if (role === 'assistant') write(at === messages.length - 1 ? content + ANSWER : content);
    else if (role === 'system') {
      if (turn.Prompt !== '') write('');
      turn.System = [turn.System, content].filter(Boolean).join('\n\n');
    } else turn.Prompt = [turn.Prompt, content].filter(Boolean).join('\n');
  }
  if (turn.System !== '' || turn.Prompt !== '') write(ANSWER);
  return text;
}
