package datadir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"

	"flyball.dev/storage/internal/frame"
)

// disk is a model of a file system on a disk. It knows what is durable: the sectors of a file by the Sync of
// the file, and names by the Sync of the directory. Chance decides what a crash keeps of the rest: some
// sectors of a file, some of the names.
type disk struct {
	mu     sync.Mutex
	random *rand.Rand

	names, durable map[string]*inode
	changes        []func(map[string]*inode) // of names that are not durable

	// left is how many calls that write succeed before the machine crashes; negative for all.
	left    int
	crashed bool
	// space is how many sectors may still be written for the first time; negative for all.
	space int
	// sparse is set if Allocate reserves no space.
	sparse bool
	// skip reports whether the Sync of a file by its present name is left out, or the Sync of the directory after a file got its
	// name, as "./" and that name.
	skip    func(name string) bool
	renamed string // the last name that a file got by Rename
	// calls are the calls that write, and skipped those that were left out.
	calls, skipped int
}

// inode is the content of a file. It may have several names.
type inode struct {
	content, durable []byte
	allocated        map[int64]bool // sectors
	dirty            map[int64]bool // sectors
}

var errCrashed = errors.New("the machine has crashed")

func newDisk(random *rand.Rand) *disk {
	return &disk{random: rand.New(rand.NewPCG(random.Uint64(), 9)), names: map[string]*inode{}, durable: map[string]*inode{}, left: -1, space: -1}
}

// setSpace sets how many sectors may still be written for the first time; negative for all.
func (d *disk) setSpace(sectors int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.space = sectors
}

// call counts a call that writes. The lock is held.
func (d *disk) call() error {
	if d.left == 0 {
		d.crashed = true
		return errCrashed
	}
	d.left--
	d.calls++
	return nil
}

// change changes the names. The lock is held.
func (d *disk) change(f func(map[string]*inode)) {
	f(d.names)
	d.changes = append(d.changes, f)
}

func (d *disk) List() ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.names)), nil
}

func (d *disk) Open(name string) (file, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.names[name]; n != nil {
		return &diskFile{d, n, name}, nil
	}
	return nil, fs.ErrNotExist
}

func (d *disk) Create(name string) (file, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.call(); err != nil {
		return nil, err
	}
	n := &inode{allocated: map[int64]bool{}, dirty: map[int64]bool{}}
	d.change(func(names map[string]*inode) { names[name] = n })
	return &diskFile{d, n, name}, nil
}

func (d *disk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.call(); err != nil {
		return err
	}
	n := d.names[from]
	if n == nil {
		return fs.ErrNotExist
	}
	d.renamed = to
	d.change(func(names map[string]*inode) {
		names[to] = n
		delete(names, from)
	})
	return nil
}

func (d *disk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.call(); err != nil {
		return err
	}
	if d.names[name] == nil {
		return fs.ErrNotExist
	}
	d.change(func(names map[string]*inode) { delete(names, name) })
	return nil
}

func (d *disk) Sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.call(); err != nil {
		return err
	}
	if d.skip != nil && d.skip("./"+d.renamed) {
		d.skipped++
		return nil
	}
	d.durable, d.changes = maps.Clone(d.names), nil
	return nil
}

// crash returns the disk after a crash.
func (d *disk) crash() *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	after := newDisk(d.random)
	names := maps.Clone(d.durable)
	for _, change := range d.changes {
		if d.random.IntN(2) == 0 {
			change(names)
		}
	}
	for name, n := range names {
		content := n.afterCrash(d.random)
		after.names[name] = &inode{content: content, durable: slices.Clone(content), allocated: maps.Clone(n.allocated), dirty: map[int64]bool{}}
	}
	after.durable = maps.Clone(after.names)
	return after
}

// afterCrash returns the content after a crash.
func (n *inode) afterCrash(random *rand.Rand) []byte {
	if len(n.dirty) == 0 && len(n.content) == len(n.durable) {
		return slices.Clone(n.durable)
	}
	size := len(n.durable)
	if random.IntN(2) == 0 {
		size = len(n.content)
	}
	content := make([]byte, size)
	copy(content, n.durable)
	for sector := range n.dirty {
		if start := sector * frame.SectorSize; start < int64(size) && random.IntN(2) == 0 {
			copy(content[start:min(int64(size), start+frame.SectorSize)], n.content[start:])
		}
	}
	return content
}

// clone returns a disk with the same durable content.
func (d *disk) clone() *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := newDisk(d.random)
	for name, n := range d.names {
		c.names[name] = &inode{content: slices.Clone(n.content), durable: slices.Clone(n.content), allocated: maps.Clone(n.allocated), dirty: map[int64]bool{}}
	}
	c.durable = maps.Clone(c.names)
	return c
}

type diskFile struct {
	disk *disk
	*inode
	name string
}

func (f *diskFile) ReadAt(p []byte, position int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	n := copy(p, f.content[min(position, int64(len(f.content))):])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *diskFile) WriteAt(p []byte, position int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	before := f.disk.crashed
	if err := f.disk.call(); err != nil {
		if before {
			return 0, err
		}
		// A part of what was in flight may be written.
		end := (position + f.disk.random.Int64N(int64(len(p))+frame.SectorSize)) &^ (frame.SectorSize - 1)
		f.write(p[:max(0, min(int64(len(p)), end-position))], position)
		return 0, err
	}
	for i := int64(0); i < int64(len(p)); i += frame.SectorSize {
		if !f.disk.allocate(f.inode, (position+i)/frame.SectorSize) {
			f.write(p[:i], position)
			return int(i), syscall.ENOSPC
		}
	}
	f.write(p, position)
	return len(p), nil
}

// allocate takes the space of a sector, and reports whether there is any.
func (d *disk) allocate(n *inode, sector int64) bool {
	if n.allocated[sector] {
		return true
	}
	if d.space == 0 {
		return false
	}
	d.space--
	n.allocated[sector] = true
	return true
}

func (f *diskFile) write(p []byte, position int64) {
	if len(p) == 0 {
		return
	}
	if end := position + int64(len(p)); end > int64(len(f.content)) {
		f.content = append(f.content, make([]byte, end-int64(len(f.content)))...)
	}
	copy(f.content[position:], p)
	for i := position / frame.SectorSize; i <= (position+int64(len(p))-1)/frame.SectorSize; i++ {
		f.dirty[i] = true
	}
}

func (f *diskFile) Size() (int64, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	return int64(len(f.content)), nil
}

func (f *diskFile) Allocate(size int64) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.call(); err != nil {
		return err
	}
	for sector := range (size + frame.SectorSize - 1) / frame.SectorSize {
		if !f.disk.sparse && !f.disk.allocate(f.inode, sector) {
			return fmt.Errorf("fallocate: %w", syscall.ENOSPC)
		}
	}
	f.content = append(f.content, make([]byte, size-int64(len(f.content)))...)
	return nil
}

func (f *diskFile) Sync() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.call(); err != nil {
		return err
	}
	name := f.name
	if f.disk.names[name] != f.inode { // renamed since it was created
		name = strings.TrimSuffix(name, temporarySuffix)
	}
	if f.disk.skip != nil && f.disk.skip(name) {
		f.disk.skipped++
		return nil
	}
	f.durable = slices.Clone(f.content)
	clear(f.dirty)
	return nil
}

func (f *diskFile) Close() error { return nil }
