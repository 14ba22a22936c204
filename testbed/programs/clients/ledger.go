package main

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// write is one that a server has acknowledged.
type write struct {
	uid        types.UID
	name       string
	version    uint64
	generation int64
	by         string
}

// life is when an object of ours existed, as far as acknowledgements tell.
type life struct {
	born   time.Time
	doomed time.Time // when its deletion was asked for first: it may be gone from then on
	died   time.Time // when that was acknowledged; zero while it lives
}

// ledger keeps every acknowledged write of one resource.
type ledger struct {
	mu     sync.Mutex
	writes []write
	lives  map[types.UID]life
	// doomed are names that somebody has asked to delete, since when.
	doomed map[string]time.Time
	// lost are contradictions of what was acknowledged, in words.
	lost []string
}

func newLedger() *ledger {
	return &ledger{lives: map[types.UID]life{}, doomed: map[string]time.Time{}}
}

// acknowledge takes an answer to a write.
func (l *ledger) acknowledge(object metav1.Object, by string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	uid := object.GetUID()
	l.writes = append(l.writes, write{
		uid: uid, name: object.GetName(), version: version(object.GetResourceVersion()),
		generation: object.GetGeneration(), by: by,
	})
	if _, known := l.lives[uid]; !known {
		l.lives[uid] = life{born: time.Now()}
	}
}

// doom is told before a delete is sent.
func (l *ledger) doom(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.doomed[name].IsZero() {
		l.doomed[name] = time.Now()
	}
}

func (l *ledger) died(uid types.UID, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := l.lives[uid]
	found.doomed, found.died = l.doomed[name], time.Now()
	l.lives[uid] = found
}

func (l *ledger) isDoomed(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.doomed[name].IsZero()
}

// lose takes a contradiction, in words.
func (l *ledger) lose(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = append(l.lost, what)
}

// snapshot copies what verdicts are made of.
func (l *ledger) snapshot() (writes []write, lives map[types.UID]life, lost []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lives = make(map[types.UID]life, len(l.lives))
	for uid, life := range l.lives {
		lives[uid] = life
	}
	return append([]write{}, l.writes...), lives, append([]string{}, l.lost...)
}
