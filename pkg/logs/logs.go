// Package logs makes the one root logger of a service: JSON lines on standard error,
// constant messages, snake_case keys, and no person in any of them.
package logs

import (
	"fmt"

	"github.com/slotwise/slotwise/pkg/config"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Read reads LOG_LEVEL (info) from the environment.
func Read(env *config.Reader) zapcore.Level {
	level, err := zapcore.ParseLevel(env.Choice("LOG_LEVEL", "least level that is logged", "info", "debug", "warn", "error"))
	if err != nil {
		level = zapcore.InfoLevel // the reader has noted the mistake
	}
	return level
}

// New returns the root logger of service. Lines are not sampled: a dropped line may be the
// one that tells why.
func New(service string, level zapcore.Level) (*zap.Logger, error) {
	settings := zap.NewProductionConfig()
	settings.Level = zap.NewAtomicLevelAt(level)
	settings.Sampling = nil
	settings.DisableStacktrace = true
	settings.EncoderConfig.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	log, err := settings.Build(zap.Fields(zap.String("service", service)))
	if err != nil {
		return nil, fmt.Errorf("make logger: %w", err)
	}
	return log, nil
}
