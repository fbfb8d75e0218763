// Files that are dropped anywhere on the page: unless they are taken, the browser leaves it and shows them.

import { useEffect, useRef, useState } from 'preact/hooks';

/** True while some are held over it. */
export function useDroppedFiles(onFiles: (files: Iterable<File>) => void): boolean {
  const [held, setHeld] = useState(false);
  const latest = useRef(onFiles);
  latest.current = onFiles;
  useEffect(() => {
    const over = (event: DragEvent) => {
      if (!event.dataTransfer?.types.includes('Files')) return;
      event.preventDefault();
      setHeld(true);
    };
    const leave = ({ relatedTarget }: DragEvent) => {
      if (relatedTarget === null) setHeld(false);
    };
    const drop = (event: DragEvent) => {
      setHeld(false);
      if (!event.dataTransfer?.files.length) return;
      event.preventDefault();
      latest.current(event.dataTransfer.files);
    };
    addEventListener('dragover', over);
    addEventListener('dragleave', leave);
    addEventListener('drop', drop);
    return () => {
      removeEventListener('dragover', over);
      removeEventListener('dragleave', leave);
      removeEventListener('drop', drop);
    };
  }, []);
  return held;
}
