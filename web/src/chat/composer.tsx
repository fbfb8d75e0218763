// The input for messages. Enter sends, Shift and Enter begin a line, Up edits the last message. Files of text go with it: by the
// button, dropped, or pasted.

import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { formatBytes } from '../../../src/text/byte-size.ts';
import { SafeText } from '../text/safe-text.tsx';
import type { AttachedFile } from './conversation.ts';

interface ComposerProps {
  /** False until there is a model to ask. */
  readonly askable: boolean;
  readonly answering: boolean;
  readonly onSay: (text: string, files: readonly AttachedFile[]) => void;
  readonly onStop: () => void;
  readonly onEditLast: () => void;
}

/** More would fill most contexts. */
const MOST_FILE_BYTES = 1 << 20;

export function Composer({ askable, answering, onSay, onStop, onEditLast }: ComposerProps) {
  const [text, setText] = useState('');
  const [files, setFiles] = useState<readonly AttachedFile[]>([]);
  const [problem, setProblem] = useState<string>();
  const area = useRef<HTMLTextAreaElement>(null);
  const id = useId();
  const sayable = askable && (text.trim() !== '' || files.length > 0);
  useEffect(() => {
    // On a phone the keyboard would cover the page.
    if (!matchMedia('(pointer: coarse)').matches) area.current?.focus({ preventScroll: true });
  }, []);
  const say = () => {
    if (answering || !sayable) return;
    onSay(text, files);
    setText('');
    setFiles([]);
    setProblem(undefined);
  };
  const attach = async (given: Iterable<File>) => {
    const read = await Promise.all([...given].map(readText));
    const problems = read.filter((one) => typeof one === 'string');
    setProblem(problems.length === 0 ? undefined : problems.join(' '));
    setFiles((before) => [...before, ...read.filter((one) => typeof one !== 'string')]);
  };
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        say();
      }}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        if (!event.dataTransfer?.files.length) return;
        event.preventDefault();
        void attach(event.dataTransfer.files);
      }}
    >
      {(files.length > 0 || problem !== undefined) && (
        <div class="attached">
          {files.map(({ name, text: content }, at) => (
            <span class="chip" key={at}>
              <SafeText text={name} most={40} /> {formatBytes(content.length)}
              <button
                type="button"
                class="small ghost"
                aria-label={`Remove ${name}`}
                onClick={() => setFiles(files.filter((_, other) => other !== at))}
              >
                ×
              </button>
            </span>
          ))}
          {problem !== undefined && (
            <p class="problem" role="alert">
              <SafeText text={problem} />
            </p>
          )}
        </div>
      )}
      <label class="attach">
        <span aria-hidden="true">+</span>
        <input
          type="file"
          multiple
          class="offscreen"
          aria-label="Attach files of text"
          onChange={(event) => {
            void attach(event.currentTarget.files ?? []);
            event.currentTarget.value = '';
          }}
        />
      </label>
      <label for={id} class="offscreen">
        Message
      </label>
      <textarea
        id={id}
        ref={area}
        rows={2}
        placeholder="Write a message"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onPaste={(event) => {
          if (!event.clipboardData?.files.length) return;
          event.preventDefault();
          void attach(event.clipboardData.files);
        }}
        onKeyDown={(event) => {
          if (event.key === 'ArrowUp' && text === '' && !answering) {
            event.preventDefault();
            onEditLast();
          }
          // An input method uses Enter to choose a character.
          if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          say();
        }}
      />
      {answering ? (
        <button type="button" class="primary" onClick={onStop} title="Escape">
          Stop
        </button>
      ) : (
        <button type="submit" class="primary" disabled={!sayable}>
          Send
        </button>
      )}
    </form>
  );
}

/** A file's text, or why it has none. */
async function readText(file: File): Promise<AttachedFile | string> {
  if (file.size > MOST_FILE_BYTES)
    return `${file.name} has ${formatBytes(file.size)}, more than ${formatBytes(MOST_FILE_BYTES)}.`;
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
    if (!text.includes('\0')) return { name: file.name, text };
  } catch {
    // Said below.
  }
  return `${file.name} is no text: only files of text can be attached.`;
}
