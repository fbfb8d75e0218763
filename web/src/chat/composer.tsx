// The input for messages. Enter sends, Shift and Enter begin a line, Up edits the last message. Files of text and images go with
// it: by the button, dropped, or pasted; photographs by a button of their own on a phone.

import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { formatBytes } from '../../../src/text/byte-size.ts';
import { SafeText } from '../text/safe-text.tsx';
import { AttachedView } from './attached-view.tsx';
import type { Attached, AttachedFile, AttachedImage } from './conversation.ts';
import { useDroppedFiles } from './dropped-files.ts';
import { isImage, readImage } from './pictures.ts';

interface ComposerProps {
  /** False until there is a model to ask. */
  readonly askable: boolean;
  readonly answering: boolean;
  /** The conversation shows images. */
  readonly pictured: boolean;
  /** Why images cannot be attached; undefined where they can. */
  readonly blindness: string | undefined;
  readonly onSay: (text: string, attached: Attached) => void;
  readonly onStop: () => void;
  readonly onEditLast: () => void;
}

const none: Attached = { files: [], images: [] };

/** More would fill most contexts. */
const MOST_FILE_BYTES = 1 << 20;

export function Composer({
  askable,
  answering,
  pictured,
  blindness,
  onSay,
  onStop,
  onEditLast,
}: ComposerProps) {
  const [text, setText] = useState('');
  const [attached, setAttached] = useState<Attached>(none);
  const [problem, setProblem] = useState<string>();
  const area = useRef<HTMLTextAreaElement>(null);
  const id = useId();
  const { files, images } = attached;
  const sees = blindness === undefined;
  const isWritten = text.trim() !== '' || files.length > 0 || images.length > 0;
  const sayable = askable && isWritten && (sees || images.length === 0);
  useEffect(() => {
    // On a phone the keyboard would cover the page.
    if (!matchMedia('(pointer: coarse)').matches) area.current?.focus({ preventScroll: true });
  }, []);
  const say = () => {
    if (answering || !sayable) return;
    onSay(text, attached);
    setText('');
    setAttached(none);
    setProblem(undefined);
  };
  const attach = async (given: Iterable<File>) => {
    const read = await Promise.all([...given].map((file) => readFile(file, blindness)));
    const problems = [...new Set(read.filter((one) => typeof one === 'string'))];
    setProblem(problems.length === 0 ? undefined : problems.join(' '));
    setAttached((before) => ({
      files: [...before.files, ...read.filter((one) => typeof one === 'object' && 'text' in one)],
      images: [...before.images, ...read.filter((one) => typeof one === 'object' && 'id' in one)],
    }));
  };
  const dropping = useDroppedFiles(attach);
  const warning = problem ?? (pictured || images.length > 0 ? blindness : undefined);
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        say();
      }}
      data-dropping={dropping}
    >
      {(files.length > 0 || images.length > 0 || warning !== undefined) && (
        <div class="attached">
          <AttachedView attached={attached} onChange={setAttached} />
          {warning !== undefined && (
            <p class="problem" role="alert">
              <SafeText text={warning} />
            </p>
          )}
        </div>
      )}
      {sees && (
        <label class="attach camera">
          <span aria-hidden="true">◉</span>
          <input
            type="file"
            accept="image/*"
            capture="environment"
            class="offscreen"
            aria-label="Take a photograph"
            onChange={(event) => {
              void attach(event.currentTarget.files ?? []);
              event.currentTarget.value = '';
            }}
          />
        </label>
      )}
      <label class="attach">
        <span aria-hidden="true">+</span>
        <input
          type="file"
          multiple
          class="offscreen"
          aria-label={sees ? 'Attach images and files of text' : 'Attach files of text'}
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
          // Programs copy text with a picture of it.
          const { files: pasted = [], types = [] } = event.clipboardData ?? {};
          if (pasted.length === 0 || types.includes('text/plain')) return;
          event.preventDefault();
          void attach(pasted);
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

/** What goes with a message, or why it cannot. */
async function readFile(
  file: File,
  blindness: string | undefined,
): Promise<AttachedFile | AttachedImage | string> {
  if (!(await isImage(file))) return readText(file, blindness === undefined);
  return blindness ?? readImage(file);
}

async function readText(file: File, sees: boolean): Promise<AttachedFile | string> {
  if (file.size > MOST_FILE_BYTES)
    return `${file.name} has ${formatBytes(file.size)}, more than ${formatBytes(MOST_FILE_BYTES)}.`;
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
    if (!text.includes('\0')) return { name: file.name, text };
  } catch {
    // Said below.
  }
  const images = sees ? ' and images that this browser reads' : '';
  return `${file.name} is no text: only files of text${images} can be attached.`;
}
