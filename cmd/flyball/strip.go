package main

import (
	"bytes"
	"debug/elf"
	"io"
)

// withoutSymbols returns a program without its symbols, DWARF sections and section table. Only linkers and debuggers
// need them; stack traces and "go version -m" do not. Linkers place them after all loaded segments. A program with
// another layout, or that is not an ELF file, is returned unchanged.
func withoutSymbols(program io.ReaderAt, size int64) io.Reader {
	whole := io.NewSectionReader(program, 0, size)
	file, err := elf.NewFile(program)
	if err != nil || file.Type != elf.ET_EXEC && file.Type != elf.ET_DYN {
		return whole
	}
	// The positions in the ELF header of the section table's offset, entry size and number of entries.
	header, table, tableSize, entries := make([]byte, 64), 0x28, 8, 0x3a
	if file.Class == elf.ELFCLASS32 {
		header, table, tableSize, entries = make([]byte, 52), 0x20, 4, 0x2e
	}
	end := int64(len(header))
	for _, p := range file.Progs {
		end = max(end, int64(p.Off+p.Filesz))
	}
	if _, err := program.ReadAt(header, 0); err != nil || end > size {
		return whole
	}
	clear(header[table : table+tableSize])
	clear(header[entries : entries+6])
	start := int64(len(header))
	return io.MultiReader(bytes.NewReader(header), io.NewSectionReader(program, start, end-start))
}
