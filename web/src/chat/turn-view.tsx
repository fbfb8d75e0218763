// A message, or results of tools, and the answer of each lane.

import type { ComponentChildren } from 'preact';
import { memo } from 'preact/compat';
import { useState } from 'preact/hooks';
import { formatBytes } from '../../../src/text/byte-size.ts';
import { CopyButton } from '../text/code-block.tsx';
import { LongText, SafeText } from '../text/safe-text.tsx';
import { AnswerView } from './answer-view.tsx';
import { AttachedView } from './attached-view.tsx';
import type { ChatRoom } from './chat-room.ts';
import { type Attached, type Said, type Turn, type UserSaid, userSaid } from './conversation.ts';
import { PictureView } from './picture-view.tsx';

interface TurnViewProps {
  readonly room: ChatRoom;
  readonly conversationId: string;
  readonly turn: Turn;
  /** The same turn, as it was said and answered again; itself among them. */
  readonly branches: readonly Turn[];
  readonly lanes: number;
  readonly editing: boolean;
  readonly onEditing: (turnId: string | undefined) => void;
}

/** Rendered again only where it changed: turns may be long. */
export const TurnView = memo(TurnViewNow, (before, after) => {
  const sameBranches =
    before.branches.length === after.branches.length &&
    before.branches.every(({ id }, at) => id === after.branches[at]?.id);
  return (
    sameBranches &&
    before.turn === after.turn &&
    before.lanes === after.lanes &&
    before.editing === after.editing
  );
});

function TurnViewNow({ room, conversationId, turn, branches, lanes, editing, onEditing }: TurnViewProps) {
  const shown = Array.from({ length: lanes }, (_, lane) => turn.answers[lane] ?? null);
  return (
    <article class="turn">
      {editing && turn.said.by === 'user' ? (
        <EditForm
          said={turn.said}
          onSend={(said) => {
            onEditing(undefined);
            room.edit(conversationId, turn, said);
          }}
          onCancel={() => onEditing(undefined)}
        />
      ) : (
        <SaidView said={turn.said} onEdit={() => onEditing(turn.id)}>
          <Branches turn={turn} branches={branches} onChoose={(one) => room.choose(conversationId, one)} />
        </SaidView>
      )}
      <div class="lanes" data-lanes={lanes}>
        {shown.map((answer, lane) => (
          <div class="lane" key={lane}>
            {answer && (
              <AnswerView
                answer={answer}
                name={lanes === 1 ? 'Answer' : `Answer ${'AB'[lane]}`}
                onRetry={() => room.retry(conversationId, turn, lane)}
                onContinue={() => room.goOn(conversationId, turn, lane)}
                onResults={(results) => room.say(conversationId, { by: 'tools', lane, results })}
              />
            )}
          </div>
        ))}
      </div>
    </article>
  );
}

interface BranchesProps {
  readonly turn: Turn;
  readonly branches: readonly Turn[];
  readonly onChoose: (turn: Turn) => void;
}

function Branches({ turn, branches, onChoose }: BranchesProps) {
  const at = branches.findIndex(({ id }) => id === turn.id);
  const before = branches[at - 1];
  const after = branches[at + 1];
  if (branches.length < 2) return null;
  return (
    <fieldset class="branches" aria-label="Branches">
      <button
        type="button"
        class="small ghost"
        aria-label="Previous branch"
        disabled={before === undefined}
        onClick={() => before && onChoose(before)}
      >
        ‹
      </button>
      <span aria-live="polite">
        {at + 1}/{branches.length}
      </span>
      <button
        type="button"
        class="small ghost"
        aria-label="Next branch"
        disabled={after === undefined}
        onClick={() => after && onChoose(after)}
      >
        ›
      </button>
    </fieldset>
  );
}

interface SaidViewProps {
  readonly said: Said;
  readonly onEdit: () => void;
  readonly children: ComponentChildren;
}

function SaidView({ said, onEdit, children }: SaidViewProps) {
  if (said.by === 'tools') {
    return (
      <div class="said said-tools">
        <h3>Tools</h3>
        {said.results.map(({ callId, text }) => (
          <pre key={callId}>
            <LongText text={text} />
          </pre>
        ))}
        <div class="row tools">{children}</div>
      </div>
    );
  }
  return (
    <div class="said">
      <h3 class="offscreen">You</h3>
      {said.images !== undefined && (
        <div class="pictures">
          {said.images.map((image) => (
            <PictureView key={image.id} image={image} />
          ))}
        </div>
      )}
      <p class="said-text">
        <LongText text={said.text} />
      </p>
      {said.files?.map(({ name, text }, at) => (
        <details class="file" key={at}>
          <summary>
            <SafeText text={name} most={80} /> <span class="quiet">{formatBytes(text.length)}</span>
          </summary>
          <pre>
            <LongText text={text} />
          </pre>
        </details>
      ))}
      <div class="row tools">
        <button type="button" class="small ghost" onClick={onEdit}>
          Edit
        </button>
        <CopyButton text={() => said.text} />
        {children}
      </div>
    </div>
  );
}

interface EditFormProps {
  readonly said: UserSaid;
  readonly onSend: (said: UserSaid) => void;
  readonly onCancel: () => void;
}

function EditForm({ said, onSend, onCancel }: EditFormProps) {
  const [draft, setDraft] = useState(said.text);
  const [attached, setAttached] = useState<Attached>({ files: said.files ?? [], images: said.images ?? [] });
  const send = () => {
    const isEmpty = draft.trim() === '' && attached.files.length + attached.images.length === 0;
    if (!isEmpty) onSend(userSaid(draft, attached));
  };
  return (
    <form
      class="said editing"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <div class="attached">
        <AttachedView attached={attached} onChange={setAttached} />
      </div>
      <textarea
        aria-label="Your message"
        rows={3}
        value={draft}
        ref={focusAtEnd}
        onInput={(event) => setDraft(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === 'Escape') {
            event.stopPropagation();
            onCancel();
          } else if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
            event.preventDefault();
            send();
          }
        }}
      />
      <div class="row">
        <button type="submit" class="small primary">
          Send
        </button>
        <button type="button" class="small" onClick={onCancel}>
          Cancel
        </button>
      </div>
    </form>
  );
}

function focusAtEnd(area: HTMLTextAreaElement | null): void {
  if (area === null || document.activeElement === area) return;
  area.focus();
  area.setSelectionRange(area.value.length, area.value.length);
}
