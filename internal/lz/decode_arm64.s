#include "go_asm.h"
#include "textflag.h"

// func pairs(b *block, need int)
//
// It does what the one for amd64 does, in the same order.
//
//	R11 next pair                 R8  last place in src where a pair may begin
//	R12 next byte to make         R10 last place in dst where one may begin
//	R2  dst                       R9  last place in dst for 16 bytes
//	R6  from a place before dst to the same place of the dictionary
//	R7  where the dictionary would begin, before dst
TEXT ·pairs(SB), NOSPLIT, $0-16
	MOVD b+0(FP), R0
	MOVD need+8(FP), R1
	MOVD block_dst(R0), R2
	MOVD block_src(R0), R3
	MOVD block_dict(R0), R4
	MOVD (block_dict+8)(R0), R5
	ADD  R5, R4, R6
	SUB  R2, R6, R6
	SUB  R5, R2, R7

	// A pair begins in src, and 5 bytes of it and 16 literals are within its capacity.
	MOVD (block_src+8)(R0), R8
	SUB  $1, R8, R8
	MOVD (block_src+16)(R0), R9
	SUB  $21, R9, R9
	CMP  R8, R9
	CSEL LT, R9, R8, R8

	MOVD (block_dst+8)(R0), R9
	SUB  $16, R9, R9
	SUB  $1, R1, R10
	CMP  R10, R9
	CSEL LT, R9, R10, R10
	TBNZ $63, R8, none
	TBNZ $63, R10, none
	ADD  R3, R8, R8
	ADD  R2, R9, R9
	ADD  R2, R10, R10
	MOVD block_s(R0), R11
	ADD  R3, R11, R11
	MOVD block_d(R0), R12
	ADD  R2, R12, R12

loop:
	CMP   R8, R11
	BHI   done
	CMP   R10, R12
	BHI   done
	MOVWU (R11), R13
	ADD   $3, R11, R14       // literals
	AND   $3, R13, R15       // their number
	UBFX  $2, R13, $6, R16
	ADD   $2, R16, R16       // length of the match
	CMP   $65, R16
	BEQ   wide

checked:
	UBFX $8, R13, $16, R13   // offset
	CMP  $16, R13
	BLO  done
	ADD  R15, R12, R17       // where the match goes
	SUB  R13, R17, R19       // where it comes from
	CMP  R7, R19
	BLO  done                // before the dictionary
	ADD  R16, R19, R20
	ADD  R6, R19, R21
	CMP  R2, R19
	CSEL HS, R2, R20, R20
	CSEL LO, R21, R19, R19
	CMP  R2, R20
	BHI  done                // beyond the dictionary's end
	ADD  $48, R17, R20
	CMP  R9, R20
	BHI  short

	FMOVQ (R14), F0
	FMOVQ F0, (R12)
	FMOVQ (R19), F0
	FMOVQ F0, (R17)
	FMOVQ 16(R19), F0
	FMOVQ F0, 16(R17)
	FMOVQ 32(R19), F0
	FMOVQ F0, 32(R17)
	FMOVQ 48(R19), F0
	FMOVQ F0, 48(R17)
	ADD   R16, R17, R12
	ADD   R15, R14, R11
	B     loop

wide:
	LSL   $8, R15, R15
	MOVBU 4(R11), R16
	ORR   R15, R16, R16
	LSR   $24, R13, R15
	ADD   $5, R11, R14
	SUB   $1, R16, R20
	CMP   $64, R20
	BHS   long               // no match, or over 64 bytes
	CMP   $16, R15
	BLS   checked

	// As many times 16 bytes as the literals and the match take.
long:
	ADD  R15, R14, R20
	SUB  $5, R20, R20
	CMP  R8, R20
	BHI  done
	ADD  R15, R12, R17       // where the match goes
	SUB  $1, R17, R20
	CMP  R9, R20
	BHI  done
	CBZ  R16, literals
	UBFX $8, R13, $16, R13
	CMP  $16, R13
	BLO  done
	SUB  R13, R17, R19
	CMP  R7, R19
	BLO  done
	ADD  R16, R19, R20
	ADD  R6, R19, R21
	CMP  R2, R19
	CSEL HS, R2, R20, R20
	CSEL LO, R21, R19, R19
	CMP  R2, R20
	BHI  done
	ADD  R16, R17, R20
	SUB  $1, R20, R20
	CMP  R9, R20
	BHI  done

literals:
	ADD R15, R14, R11
	CMP R17, R12
	BHS match

literal:
	FMOVQ (R14), F0
	FMOVQ F0, (R12)
	ADD   $16, R14, R14
	ADD   $16, R12, R12
	CMP   R17, R12
	BLO   literal

match:
	ADD R16, R17, R12
	CMP R12, R17
	BLO piece
	B   loop

	// Near the end of dst only as many times 16 bytes as the match takes.
short:
	ADD   R16, R17, R20
	SUB   $1, R20, R20
	CMP   R9, R20
	BHI   done
	FMOVQ (R14), F0
	FMOVQ F0, (R12)
	ADD   R16, R17, R12
	ADD   R15, R14, R11

piece:
	FMOVQ (R19), F0
	FMOVQ F0, (R17)
	ADD   $16, R19, R19
	ADD   $16, R17, R17
	CMP   R12, R17
	BLO   piece
	B     loop

done:
	SUB  R3, R11, R11
	SUB  R2, R12, R12
	MOVD R11, block_s(R0)
	MOVD R12, block_d(R0)

none:
	RET
