// A conversation as a file: Markdown of the branch that is shown, for people, or JSON with all branches, to be imported again.

import { saveFile } from '../shell/save-file.ts';
import { messageText } from './chat-body.ts';
import { type Conversation, shownTurns, titleOf } from './conversation.ts';
import { storedForm } from './kept-conversations.ts';

export function asMarkdown(conversation: Conversation): string {
  const parts = shownTurns(conversation).flatMap(({ said, answers }) => [
    said.by === 'user'
      ? `## You\n\n${messageText(said)}`
      : `## Tools\n\n${said.results.map(({ text }) => `\`\`\`\n${text}\n\`\`\``).join('\n\n')}`,
    ...answers.flatMap((answer) => (answer === null ? [] : [`## ${answer.model}\n\n${answer.content}`])),
  ]);
  return `${[`# ${titleOf(conversation)}`, ...parts].join('\n\n')}\n`;
}

export function asJson(conversation: Conversation): string {
  return `${JSON.stringify(storedForm(conversation), undefined, 2)}\n`;
}

export function save(name: string, type: string, text: string): void {
  saveFile(name, new Blob([text], { type }));
}
