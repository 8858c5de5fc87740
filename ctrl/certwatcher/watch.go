package certwatcher

import (
	"path/filepath"
	"slices"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// startWatch handles the events of watcher until the returned function is called, which returns
// when they are no longer handled.
func (cw *CertWatcher) startWatch(watcher *fsnotify.Watcher) (stop func()) {
	cw.addWatches(watcher)
	cw.Lock()
	cw.watcher = watcher
	cw.Unlock()
	var handlers sync.WaitGroup
	handlers.Go(cw.Watch)
	return func() {
		if err := watcher.Close(); err != nil {
			cw.log.Error(err, "Failed to close the watch of the certificate")
		}
		handlers.Wait()
		cw.Lock()
		cw.watcher = nil
		cw.Unlock()
	}
}

// Watch reads the certificate whenever the file system reports a change of its files. It returns
// when Start returns, or at once if Start has not been called. Start calls it; there is no need to.
func (cw *CertWatcher) Watch() {
	cw.RLock()
	watcher := cw.watcher
	cw.RUnlock()
	if watcher == nil {
		return
	}
	resolved := cw.resolve()
	for {
		select {
		case event, ok := <-watcher.Events:
			if !ok {
				return
			}
			now := cw.resolve()
			if now != resolved {
				cw.addWatches(watcher)
			} else if !slices.Contains(cw.names(resolved), filepath.Base(event.Name)) {
				continue
			}
			resolved = now
			cw.log.V(1).Info("Certificate event", "event", event.String())
			cw.reload()
		case err, ok := <-watcher.Errors:
			if !ok {
				return
			}
			// Events may have been dropped.
			cw.log.Error(err, "Certificate watch error")
			cw.reload()
		}
	}
}

// files are the certificate and its key, in this order.
type files [2]string

// resolve returns the paths of the files with all symbolic links followed, empty for one that does
// not exist. A mounted secret is replaced by one rename of a symbolic link beside the files.
func (cw *CertWatcher) resolve() files {
	var resolved files
	for i, path := range [...]string{cw.certPath, cw.keyPath} {
		resolved[i], _ = filepath.EvalSymlinks(path)
	}
	return resolved
}

// names returns the base names of the files and of what they link to: an event of another file in
// their directories is none of theirs.
func (cw *CertWatcher) names(resolved files) []string {
	var names []string
	for _, path := range []string{cw.certPath, cw.keyPath, resolved[0], resolved[1]} {
		names = append(names, filepath.Base(path))
	}
	return names
}

// addWatches watches the directories of the files and of what they link to, and no others. A watch
// of a directory, unlike a watch of a file, remains when a file in it is replaced.
func (cw *CertWatcher) addWatches(watcher *fsnotify.Watcher) {
	resolved := cw.resolve()
	directories := []string{filepath.Dir(cw.certPath), filepath.Dir(cw.keyPath)}
	for _, path := range resolved {
		if path != "" {
			directories = append(directories, filepath.Dir(path))
		}
	}
	slices.Sort(directories)
	directories = slices.Compact(directories)
	for _, watched := range watcher.WatchList() {
		if !slices.Contains(directories, watched) {
			_ = watcher.Remove(watched) // it may be gone already
		}
	}
	for _, directory := range directories {
		if err := watcher.Add(directory); err != nil {
			cw.log.Error(err, "Failed to watch the directory of the certificate; it is tried again at the interval",
				"directory", directory)
		}
	}
}
