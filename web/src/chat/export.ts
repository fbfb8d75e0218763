// A conversation as a file: Markdown of the branch that is shown, for people, or JSON with all branches, to be imported again.

import { saveFile } from '../shell/save-file.ts';
import { messageText } from './chat-body.ts';
import { type Conversation, shownTurns, titleOf } from './conversation.ts';
import { storedForm } from './kept-conversations.ts';
import { imageIds, picturesOf } from './pictures.ts';

export function asMarkdown(conversation: Conversation): string {
  const parts = shownTurns(conversation).flatMap(({ said, answers }) => [
    said.by === 'user'
      ? `## You\n\n${[...(said.images ?? []).map(({ name }) => `(Image: ${name})`), messageText(said)].join('\n\n').trim()}`
      : `## Tools\n\n${said.results.map(({ text }) => `\`\`\`\n${text}\n\`\`\``).join('\n\n')}`,
    ...answers.flatMap((answer) => (answer === null ? [] : [`## ${answer.model}\n\n${answer.content}`])),
  ]);
  return `${[`# ${titleOf(conversation)}`, ...parts].join('\n\n')}\n`;
}

/** With its images, by their ids, as far as this browser has them. */
export async function asJson(conversation: Conversation): Promise<string> {
  const { turns } = conversation;
  const pictures = await picturesOf(turns);
  const images = Object.fromEntries(
    imageIds(turns).flatMap((id) => (pictures.has(id) ? [[id, pictures.get(id)]] : [])),
  );
  const whole = { ...storedForm(conversation), ...(Object.keys(images).length === 0 ? {} : { images }) };
  return `${JSON.stringify(whole, undefined, 2)}\n`;
}

/** Of such a file: images that are shown from it alone, never fetched from elsewhere. */
export function imagesIn(text: string): ReadonlyMap<string, string> {
  const { images } = JSON.parse(text) as { images?: unknown };
  if (typeof images !== 'object' || images === null) return new Map();
  return new Map(
    Object.entries(images).filter(
      (one): one is [string, string] =>
        typeof one[1] === 'string' && /^data:image\/[a-z]+;base64,/.test(one[1]),
    ),
  );
}

export function save(name: string, type: string, text: string): void {
  saveFile(name, new Blob([text], { type }));
}
