package inbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ErrNotFound says that there is no mail with this ID, or not any more.
var ErrNotFound = errors.New("no such mail")

// Store keeps mails in a folder. Its methods are safe for concurrent use.
type Store struct {
	dir  string
	keep int

	mu   sync.Mutex
	list []Summary // oldest first
	last int64     // number of the newest
}

// suffix of a mail's file; before it stands the ID.
const suffix = ".eml"

// Open reads the mails in dir, which is made when missing. It keeps the newest keep mails.
func Open(dir string, keep int) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the inbox's folder: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"+suffix)) // in order of their IDs
	if err != nil {
		return nil, fmt.Errorf("list the inbox: %w", err)
	}
	s := &Store{dir: dir, keep: keep}
	for _, file := range files {
		id := strings.TrimSuffix(filepath.Base(file), suffix)
		number, err := strconv.ParseInt(id, 16, 64)
		if err != nil || id != formatID(number) {
			continue // not ours
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read the inbox: %w", err)
		}
		s.last = number
		s.list = append(s.list, summarize(id, time.Unix(0, number), raw))
	}
	return s, s.trim(s.keep)
}

// formatID makes an ID whose order as text is that of its number, the time of receipt.
func formatID(number int64) string { return fmt.Sprintf("%016x", number) }

// Add keeps a mail. When it returns, the mail is there for every reader, and after a restart.
func (s *Store) Add(raw []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.last = max(now.UnixNano(), s.last+1)
	id := formatID(s.last)
	half := filepath.Join(s.dir, id+".new")
	if err := os.WriteFile(half, raw, 0o600); err != nil {
		return fmt.Errorf("keep a mail: %w", err)
	}
	if err := os.Rename(half, s.file(id)); err != nil {
		return fmt.Errorf("keep a mail: %w", err)
	}
	s.list = append(s.list, summarize(id, now, raw))
	return s.trim(s.keep)
}

// trim drops the oldest mails, so that keep are left.
func (s *Store) trim(keep int) error {
	for len(s.list) > keep {
		if err := os.Remove(s.file(s.list[0].ID)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("drop an old mail: %w", err)
		}
		s.list = s.list[1:]
	}
	return nil
}

func (s *Store) file(id string) string { return filepath.Join(s.dir, id+suffix) }

// List returns up to limit mails, newest first, without the start newest; and how many there
// are in all, and how many of all are unread.
func (s *Store) List(start, limit int) (page []Summary, total, unread int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.list {
		if !m.Read {
			unread++
		}
	}
	total = len(s.list)
	end := max(0, total-max(0, start))
	page = append([]Summary{}, s.list[max(0, end-max(0, limit)):end]...) // never nil: a list in JSON
	slices.Reverse(page)
	return page, total, unread
}

// Raw returns a mail as it was received. It fails with [ErrNotFound].
func (s *Store) Raw(id string) ([]byte, error) {
	s.mu.Lock()
	_, ok := s.find(id)
	s.mu.Unlock()
	if !ok {
		return nil, ErrNotFound
	}
	raw, err := os.ReadFile(s.file(id))
	if errors.Is(err, os.ErrNotExist) {
		return nil, ErrNotFound // dropped meanwhile
	}
	if err != nil {
		return nil, fmt.Errorf("read a mail: %w", err)
	}
	return raw, nil
}

// MarkRead notes that somebody has looked at a mail.
func (s *Store) MarkRead(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, ok := s.find(id); ok {
		s.list[i].Read = true
	}
}

// Clear drops all mails.
func (s *Store) Clear() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trim(0)
}

// find returns the place of a mail in the list, which is in the order of the IDs.
func (s *Store) find(id string) (int, bool) {
	return slices.BinarySearchFunc(s.list, id, func(m Summary, id string) int { return strings.Compare(m.ID, id) })
}
