// The list of conversations: search, import, and for each its name, export and deletion.

import { useId, useRef, useState } from 'preact/hooks';
import { Confirm } from '../shell/confirm.tsx';
import { hashOf } from '../shell/route.ts';
import { SafeText } from '../text/safe-text.tsx';
import type { ChatRoom } from './chat-room.ts';
import { type Conversation, titleOf } from './conversation.ts';
import { asJson, asMarkdown, imagesIn, save } from './export.ts';
import { parseConversation } from './kept-conversations.ts';
import { takePictures } from './pictures.ts';

interface ConversationListProps {
  readonly room: ChatRoom;
  readonly conversations: readonly Conversation[];
  readonly current: Conversation | undefined;
}

export function ConversationList({ room, conversations, current }: ConversationListProps) {
  const [doomed, setDoomed] = useState<Conversation>();
  const [renamed, setRenamed] = useState<Conversation>();
  const [sought, setSought] = useState('');
  const [isOpen, setOpen] = useState(false);
  const [problem, setProblem] = useState<string>();
  const go = ({ id }: Conversation) => {
    setOpen(false);
    location.hash = hashOf({ view: 'chat', id });
  };
  const found = conversations.filter((one) => isAbout(one, sought));
  const take = async (file: File | undefined) => {
    if (file === undefined) return;
    const text = await file.text();
    const conversation = parseConversation(text);
    setProblem(conversation ? undefined : `${file.name} is no conversation that was exported as JSON.`);
    if (conversation === undefined) return;
    await takePictures(conversation.turns, imagesIn(text));
    go(room.take(conversation));
  };
  return (
    <aside class="conversations" aria-label="Conversations" data-open={isOpen}>
      <div class="row conversations-head">
        <button type="button" class="wide" onClick={() => go(room.open(current?.lanes))}>
          New conversation
        </button>
        <button type="button" class="narrow-only" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          All
        </button>
      </div>
      <div class="conversations-all">
        <input
          type="search"
          aria-label="Search conversations"
          placeholder="Search"
          value={sought}
          onInput={(event) => setSought(event.currentTarget.value)}
        />
        <ul>
          {found.map((one) => (
            <li key={one.id}>
              {one.id === renamed?.id ? (
                <RenameForm
                  name={titleOf(one)}
                  onName={(name) => {
                    if (name !== undefined) room.rename(one.id, name);
                    setRenamed(undefined);
                  }}
                />
              ) : (
                <a
                  href={hashOf({ view: 'chat', id: one.id })}
                  aria-current={one.id === current?.id ? 'true' : undefined}
                  onClick={() => setOpen(false)}
                >
                  <SafeText text={titleOf(one)} most={60} />
                </a>
              )}
              <Actions conversation={one} onRename={() => setRenamed(one)} onDelete={() => setDoomed(one)} />
            </li>
          ))}
        </ul>
        {found.length === 0 && <p class="quiet">None has these words.</p>}
        <label class="import">
          Import
          <input
            type="file"
            accept=".json,application/json"
            class="offscreen"
            onChange={(event) => {
              void take(event.currentTarget.files?.[0]);
              event.currentTarget.value = '';
            }}
          />
        </label>
        {problem !== undefined && (
          <p class="problem" role="alert">
            <SafeText text={problem} />
          </p>
        )}
      </div>
      {doomed && (
        <Confirm
          title="Delete this conversation?"
          action="Delete"
          onConfirm={() => room.remove(doomed.id)}
          onClose={() => setDoomed(undefined)}
        >
          <p>
            <SafeText text={titleOf(doomed)} /> is kept in this browser alone, and will be gone.
          </p>
        </Confirm>
      )}
    </aside>
  );
}

interface ActionsProps {
  readonly conversation: Conversation;
  readonly onRename: () => void;
  readonly onDelete: () => void;
}

function Actions({ conversation, onRename, onDelete }: ActionsProps) {
  const id = useId();
  const menu = useRef<HTMLDivElement>(null);
  const actions = [
    ['Rename', onRename],
    [
      'Export as Markdown',
      () => save(`${titleOf(conversation)}.md`, 'text/markdown', asMarkdown(conversation)),
    ],
    [
      'Export as JSON',
      async () => save(`${titleOf(conversation)}.json`, 'application/json', await asJson(conversation)),
    ],
    ['Delete', onDelete],
  ] as const;
  return (
    <>
      <button
        type="button"
        class="small ghost"
        aria-label={`Actions for conversation ${titleOf(conversation)}`}
        popovertarget={id}
        style={{ anchorName: `--${id}` }}
      >
        ⋯
      </button>
      <div id={id} ref={menu} popover="auto" class="menu" style={{ positionAnchor: `--${id}` }}>
        {actions.map(([name, act]) => (
          <button
            key={name}
            type="button"
            class="ghost"
            onClick={() => {
              menu.current?.hidePopover();
              void act();
            }}
          >
            {name}
          </button>
        ))}
      </div>
    </>
  );
}

interface RenameFormProps {
  readonly name: string;
  /** Undefined where it stays. */
  readonly onName: (name: string | undefined) => void;
}

function RenameForm({ name, onName }: RenameFormProps) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <form
      class="rename"
      onSubmit={(event) => {
        event.preventDefault();
        onName(input.current?.value.trim());
      }}
    >
      <input
        ref={(element) => {
          if (element && input.current !== element) element.select();
          input.current = element;
        }}
        aria-label="Name of the conversation"
        defaultValue={name}
        onBlur={() => onName(undefined)}
        onKeyDown={(event) => {
          if (event.key !== 'Escape') return;
          event.preventDefault();
          onName(undefined);
        }}
      />
    </form>
  );
}

function isAbout(conversation: Conversation, sought: string): boolean {
  const words = sought.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return true;
  const texts = conversation.turns.flatMap(({ said, answers }) => [
    said.by === 'user' ? said.text : '',
    ...answers.map((answer) => answer?.content ?? ''),
  ]);
  const all = [titleOf(conversation), ...texts].join('\n').toLowerCase();
  return words.every((word) => all.includes(word));
}
